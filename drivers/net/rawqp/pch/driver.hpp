// SPDX-License-Identifier: BSD-3-Clause
// Precompiled: what nearly every file of the driver includes, by itself, all the same. The build
// with clang uses no precompiled headers and so finds an include that is missing.
#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
