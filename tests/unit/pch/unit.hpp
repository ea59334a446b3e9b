// SPDX-License-Identifier: BSD-3-Clause
// Precompiled headers: what nearly every unit test includes. Tests still include these themselves;
// the clang build uses no precompiled headers and so detects a missing include.
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
