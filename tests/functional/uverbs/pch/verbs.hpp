// SPDX-License-Identifier: BSD-3-Clause
// Precompiled: what every file of the program includes, by itself, all the same.
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>
