// SPDX-License-Identifier: BSD-3-Clause
// Precompiled: what nearly every file of the device includes, by itself, all the same. The build
// with clang uses no precompiled headers and so finds an include that is missing.
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
