// SPDX-License-Identifier: BSD-3-Clause
// Precompiled header: what nearly every file of the device includes. Each file still includes it
// itself. The build with clang uses no precompiled headers and so detects missing includes.
#include "common/result.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <unordered_map>
#include <variant>
#include <vector>
