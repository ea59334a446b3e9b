// SPDX-License-Identifier: BSD-3-Clause
// Duplicated descriptors, and what is imported from one: contexts, PDs, MRs, as DPDK's net_mlx5
// does from 24.11.4 on.
#include "tests/functional/uverbs/verbs.hpp"

#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace test {
namespace {

ContextHandle import_copy(const ibv_context& of) {
    const int copy = dup(of.cmd_fd);
    ContextHandle imported(ibv_import_device(copy)); // which then owns the descriptor
    if (!imported) close(copy);
    return imported;
}

/// Sends and receives a frame.
void expect_traffic(ibv_context* context, ibv_pd* pd) {
    Endpoint endpoint(context, pd);
    endpoint.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint.send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint.receive(), frame);
}

class ImportTest : public VerbsTest {};

TEST_F(ImportTest, ContextLivesUntilItsLastDescriptorIsClosed) {
    expect_traffic(context.get(), pd.get());
    const int node = context->cmd_fd;
    constexpr int kNumber = 900;
    const std::vector<std::function<int()>> ways = {
        [=] { return dup(node); },
        [=] { return dup2(node, kNumber); },
        [=] { return dup3(node, kNumber, O_CLOEXEC); },
        [=] { return fcntl(node, F_DUPFD, kNumber); },
        [=] { return fcntl(node, F_DUPFD_CLOEXEC, kNumber); },
    };
    for (size_t i = 0; i < ways.size(); i++) {
        const int copy = ways[i]();
        ASSERT_GE(copy, 0) << i << ": " << std::strerror(errno);
        // libibverbs keeps using the number it knows, which now belongs to the copy only.
        ASSERT_EQ(dup2(copy, node), node);
        ASSERT_EQ(close(copy), 0);
        expect_traffic(context.get(), pd.get());
    }
}

TEST_F(ImportTest, DuplicatesAreOneDevice) {
    const int copy = dup(context->cmd_fd);
    struct stat first {
    }, second{};
    ASSERT_EQ(fstat(context->cmd_fd, &first), 0);
    ASSERT_EQ(fstat(copy, &second), 0);
    EXPECT_TRUE(S_ISCHR(first.st_mode));
    EXPECT_EQ(first.st_rdev, second.st_rdev);
    EXPECT_EQ(close(copy), 0);
}

/// libibverbs uses it to find the device of a descriptor.
TEST_F(ImportTest, NumberOfTheNodeIsTheOneInSysfs) {
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband_verbs")) {
        const std::string name = entry.path().filename();
        if (!name.starts_with("uverbs")) continue;
        const std::string number = first_line(entry.path() / "dev");
        const std::string node = "/dev/infiniband/" + name;
        const auto text = [](dev_t device) {
            return std::to_string(major(device)) + ":" + std::to_string(minor(device));
        };
        struct stat status {};
        ASSERT_EQ(stat(node.c_str(), &status), 0) << node;
        EXPECT_EQ(text(status.st_rdev), number);
        ASSERT_EQ(lstat(node.c_str(), &status), 0);
        EXPECT_TRUE(S_ISCHR(status.st_mode));
        const int fd = open(node.c_str(), O_RDWR | O_CLOEXEC);
        ASSERT_GE(fd, 0) << std::strerror(errno);
        ASSERT_EQ(fstatat(fd, "", &status, AT_EMPTY_PATH), 0);
        EXPECT_EQ(text(status.st_rdev), number);
        struct statx more {};
        ASSERT_EQ(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more), 0);
        EXPECT_EQ(text(makedev(more.stx_rdev_major, more.stx_rdev_minor)), number);
        close(fd);
    }
}

TEST_F(ImportTest, ImportedContextWorksAlone) {
    ContextHandle imported = import_copy(*context);
    ASSERT_TRUE(imported) << std::strerror(errno);
    EXPECT_STREQ(imported->device->name, context->device->name);
    EXPECT_EQ(imported->num_comp_vectors, context->num_comp_vectors);
    EXPECT_NE(imported->async_fd, context->async_fd);
    pd.reset();
    context.reset();
    const PdHandle own(ibv_alloc_pd(imported.get()));
    ASSERT_TRUE(own) << std::strerror(errno);
    expect_traffic(imported.get(), own.get());
}

/// Also with several devices: test_uverbs.py runs this with three ports.
TEST_F(ImportTest, EachDeviceIsImportedAsItself) {
    int count = 0;
    ibv_device** const devices = ibv_get_device_list(&count);
    ASSERT_GT(count, 0);
    for (int i = 0; i < count; i++) {
        const std::string name = devices[i]->name;
        const ContextHandle original = open_device(name.c_str());
        ASSERT_TRUE(original) << name;
        const ContextHandle imported = import_copy(*original);
        ASSERT_TRUE(imported) << name << ": " << std::strerror(errno);
        EXPECT_EQ(imported->device->name, name);
    }
    ibv_free_device_list(devices);
}

TEST_F(ImportTest, ImportedPdAndMr) {
    const ContextHandle imported = import_copy(*context);
    ASSERT_TRUE(imported) << std::strerror(errno);
    ibv_pd* const same_pd = ibv_import_pd(imported.get(), pd->handle);
    ASSERT_TRUE(same_pd) << std::strerror(errno);
    expect_traffic(imported.get(), same_pd);

    std::vector<uint8_t> memory(5000);
    const MrHandle mr(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    ibv_mr* const same_mr = ibv_import_mr(same_pd, mr->handle);
    ASSERT_TRUE(same_mr) << std::strerror(errno);
    EXPECT_EQ(same_mr->lkey, mr->lkey);
    EXPECT_EQ(same_mr->rkey, mr->rkey);
    EXPECT_EQ(same_mr->length, memory.size());
    ibv_unimport_mr(same_mr);

    EXPECT_EQ(ibv_import_pd(imported.get(), 4711), nullptr);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(ibv_import_mr(same_pd, pd->handle), nullptr) << "a PD is no MR";
    ibv_unimport_pd(same_pd);
}

/// Its own receive queues, and RSS over them, must also get events through the imported file.
TEST_F(ImportTest, ImportedContextTakesRssQueues) {
    const ContextHandle imported = import_copy(*context);
    ASSERT_TRUE(imported) << std::strerror(errno);
    const PdHandle own(ibv_alloc_pd(imported.get()));
    const CqHandle cq(ibv_create_cq(imported.get(), 64, nullptr, nullptr, 0));
    ASSERT_TRUE(own && cq) << std::strerror(errno);
    ibv_wq_init_attr attributes = wq_attributes(own.get(), cq.get(), 64);
    const WqHandle wq(ibv_create_wq(imported.get(), &attributes));
    ASSERT_TRUE(wq) << std::strerror(errno);
    ibv_wq* queue = wq.get();
    ibv_rwq_ind_table_init_attr table_attributes{};
    table_attributes.ind_tbl = &queue;
    const TableHandle table(ibv_create_rwq_ind_table(imported.get(), &table_attributes));
    ASSERT_TRUE(table) << std::strerror(errno);
    std::array<uint8_t, 40> key{};
    ibv_qp_init_attr_ex hash{};
    hash.qp_type = IBV_QPT_RAW_PACKET;
    hash.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    hash.pd = own.get();
    hash.rwq_ind_tbl = table.get();
    hash.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                         .rx_hash_key_len = key.size(),
                         .rx_hash_key = key.data(),
                         .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4};
    const QpHandle qp(ibv_create_qp_ex(imported.get(), &hash));
    EXPECT_TRUE(qp) << std::strerror(errno);
}

/// The number of descriptors does not grow as contexts come and go.
TEST_F(ImportTest, ImportsLeaveNothingBehind) {
    const auto descriptors = [] {
        using Iterator = std::filesystem::directory_iterator;
        return std::distance(Iterator("/proc/self/fd"), Iterator());
    };
    ASSERT_TRUE(import_copy(*context));
    const auto before = descriptors();
    for (int i = 0; i < 20; i++)
        ASSERT_TRUE(import_copy(*context));
    EXPECT_EQ(descriptors(), before);
}

TEST_F(ImportTest, OnlyDevicesCanBeImported) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    EXPECT_EQ(ibv_import_device(null), nullptr);
    EXPECT_EQ(errno, ENODEV);
    close(null);
}

} // namespace
} // namespace test
