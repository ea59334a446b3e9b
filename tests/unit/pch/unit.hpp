// SPDX-License-Identifier: BSD-3-Clause
// Precompiled: what nearly every unit test includes, by itself, all the same. The build with clang
// uses no precompiled headers and so finds an include that is missing.
#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>
