// SPDX-License-Identifier: BSD-3-Clause
// Precompiled headers: what every file of the program includes, which it still does itself.
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>
