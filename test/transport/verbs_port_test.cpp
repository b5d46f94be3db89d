// Which port of which RDMA device is used, on machines that a fake library describes; and endpoints as they travel.
#include "transport/verbs/endpoint.h"
#include "transport/verbs/port.h"
#include "transport/verbs/troubles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

namespace maestro::transport {
namespace {

using testing::AllOf, testing::HasSubstr;

struct FakeGid {
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
  std::optional<std::array<uint8_t, 4>> ipv4; ///< Else link-local.
  bool isReadable = true;
};

struct FakePort {
  std::vector<FakeGid> gids;
  bool isEthernet = true, isActive = true;
};

struct FakeDevice {
  std::string name;
  std::vector<FakePort> ports;
  ibv_device device{};
  verbs_context context{};
};

std::vector<FakeDevice> machine;
int opened = 0;

FakeDevice &fakeOf(const ibv_context *context) {
  for (FakeDevice &fake : machine)
    if (&fake.context.context == context)
      return fake;
  throw std::logic_error("not a context");
}

FakeDevice &fakeOf(const ibv_device *device) {
  for (FakeDevice &fake : machine)
    if (&fake.device == device)
      return fake;
  throw std::logic_error("not a device");
}

VerbsFunctions fakeLibrary() {
  VerbsFunctions table{};
  table.getDeviceList = [](int *count) {
    *count = static_cast<int>(machine.size());
    auto *list = new ibv_device *[machine.size() + 1]();
    for (size_t i = 0; i < machine.size(); ++i)
      list[i] = &machine[i].device;
    return list;
  };
  table.freeDeviceList = [](ibv_device **list) { delete[] list; };
  table.getDeviceName = [](ibv_device *device) { return fakeOf(device).name.c_str(); };
  table.openDevice = [](ibv_device *device) {
    ++opened;
    verbs_context &context = fakeOf(device).context;
    context.sz = sizeof context;
    context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context.query_port = [](ibv_context *of, uint8_t number, ibv_port_attr *attributes, size_t) {
      const FakePort &port = fakeOf(of).ports[number - 1];
      attributes->state = port.isActive ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
      attributes->link_layer = port.isEthernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
      attributes->gid_tbl_len = static_cast<int>(port.gids.size());
      attributes->active_mtu = IBV_MTU_4096;
      return 0;
    };
    return &context.context;
  };
  table.closeDevice = [](ibv_context *) {
    --opened;
    return 0;
  };
  table.queryDevice = [](ibv_context *context, ibv_device_attr *limits) {
    limits->phys_port_cnt = static_cast<uint8_t>(fakeOf(context).ports.size());
    return 0;
  };
  table.queryGid = [](ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *entry, uint32_t, size_t) {
    const FakeGid &gid = fakeOf(context).ports[port - 1].gids[index];
    if (!gid.isReadable)
      return EINVAL;
    *entry = {};
    entry->gid_type = gid.type;
    entry->gid.raw[0] = gid.ipv4 ? 0 : 0xfe;
    entry->gid.raw[1] = gid.ipv4 ? 0 : 0x80;
    if (gid.ipv4) {
      entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
      std::copy(gid.ipv4->begin(), gid.ipv4->end(), entry->gid.raw + 12);
    }
    return 0;
  };
  return table;
}

const VerbsFunctions library = fakeLibrary();
constexpr const char *kAddress = "10.0.0.1";

FakeGid v2(uint8_t network) { return {IBV_GID_TYPE_ROCE_V2, {{10, 0, network, 1}}}; }
FakeGid v1(uint8_t network) { return {IBV_GID_TYPE_ROCE_V1, {{10, 0, network, 1}}}; }
FakeGid linkLocal() { return {}; }

/// "device:port:GID", or what is said.
std::string choose(std::vector<FakeDevice> devices, const std::string &wanted = "", bool onlyAddress = false,
                   PortShare share = {}) {
  machine = std::move(devices);
  std::string chosen;
  {
    auto port = openVerbsPort(library, wanted, kAddress, onlyAddress, share);
    chosen = port ? port->device + ":" + std::to_string(port->number) + ":" + std::to_string(port->gidIndex)
                  : std::string(port.status().message());
  }
  EXPECT_EQ(opened, 0) << "devices that are still open";
  return chosen;
}

TEST(VerbsTroubles, WhatHasGrownIsNamed) {
  std::string root = testing::TempDir() + "troubles", port = root + "/mlx5_0/ports/1";
  std::filesystem::create_directories(port + "/counters");
  std::filesystem::create_directories(port + "/hw_counters");
  auto write = [&](const std::string &name, const std::string &text) { std::ofstream(port + "/" + name) << text; };
  write("counters/symbol_error", "7\n");
  write("counters/port_xmit_data", "1000\n");
  write("hw_counters/packet_seq_err", "2\n");
  write("hw_counters/out_of_sequence", "no number\n");
  auto before = readTroubles("mlx5_0", 1, root);
  EXPECT_EQ(before, (std::map<std::string, uint64_t>{{"symbol_error", 7}, {"packet_seq_err", 2}}));
  EXPECT_EQ(troublesSince(before, before), "");
  write("hw_counters/packet_seq_err", "5\n");
  write("counters/symbol_error", "8\n");
  write("counters/port_xmit_data", "2000\n");
  EXPECT_EQ(troublesSince(before, readTroubles("mlx5_0", 1, root)), "packet_seq_err 3, symbol_error 1");
  EXPECT_TRUE(readTroubles("mlx5_1", 1, root).empty()) << "no such device";
  std::filesystem::remove_all(root);
}

TEST(VerbsPortTest, TheJobsOwnAddressComesFirst) {
  FakeDevice other{"mlx5_0", {{{linkLocal(), v1(7), v2(7)}}}}, same{"mlx5_1", {{{linkLocal(), v1(0), v2(0)}}}};
  FakeDevice infiniband{"mlx5_2", {{{linkLocal()}, false}}};
  EXPECT_EQ(choose({other, infiniband, same}), "mlx5_1:1:2");
  EXPECT_EQ(choose({other, infiniband}), "mlx5_2:1:0");
  EXPECT_EQ(choose({other}), "mlx5_0:1:2") << "RoCE v2, and not the link-local address";
}

TEST(VerbsPortTest, TheProcessesOfAMachineShareItsPorts) {
  auto infiniband = [](const char *name) { return FakeDevice{name, {{{linkLocal()}, false}}}; };
  std::vector<FakeDevice> rails = {infiniband("mlx5_0"), infiniband("mlx5_1"), infiniband("mlx5_2"),
                                   infiniband("mlx5_3")};
  rails.insert(rails.begin(), FakeDevice{"roce0", {{{v2(7)}}}}); // Less good.
  auto taken = [&](uint32_t count, const std::string &wanted = "") {
    std::string all;
    for (uint32_t index = 0; index < count; ++index)
      all += (index ? " " : "") + choose(rails, wanted, false, {index, count}).substr(0, 6);
    return all;
  };
  EXPECT_EQ(taken(1), "mlx5_0");
  EXPECT_EQ(taken(2), "mlx5_0 mlx5_2");
  EXPECT_EQ(taken(4), "mlx5_0 mlx5_1 mlx5_2 mlx5_3");
  EXPECT_EQ(taken(8), "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3");
  EXPECT_EQ(taken(2, "mlx5_3"), "mlx5_3 mlx5_3") << "it was named";
}

TEST(VerbsPortTest, WhatIsNamedInAListIsEquallyGood) {
  FakeDevice same{"mlx5_0", {{{linkLocal(), v2(0)}}}}, other{"mlx5_1", {{{linkLocal(), v2(7)}}, {{v2(8)}}}};
  std::string both = "mlx5_1:2,mlx5_0";
  EXPECT_EQ(choose({same, other}, both, false, {0, 2}), "mlx5_1:2:0");
  EXPECT_EQ(choose({same, other}, both, false, {1, 2}), "mlx5_0:1:1");
  auto count = [](std::vector<FakeDevice> devices, const std::string &wanted) {
    machine = std::move(devices);
    auto found = countVerbsPorts(library, wanted, kAddress, false);
    return found ? std::to_string(*found) : std::string(found.status().message());
  };
  EXPECT_EQ(count({same, other}, both), "2");
  EXPECT_EQ(count({same, other}, "mlx5_1"), "2");
  EXPECT_EQ(count({same, other}, ""), "1") << "that with the job's address";
  EXPECT_EQ(count({other}, ""), "2");
  EXPECT_THAT(count({same, other}, "mlx5_0,mlx5_9"), HasSubstr("MAESTRO_IB_DEVICE=mlx5_9 names none"));
  EXPECT_THAT(count({same, other}, "mlx5_0,,"), HasSubstr("an empty name")) << "which would mean any";
}

TEST(VerbsPortTest, WhatCannotBeUsedIsPassedOver) {
  FakeGid unreadable = v2(0);
  unreadable.isReadable = false;
  FakeDevice two{"bnxt_re0", {{{v2(0)}, true, false}, {{unreadable, linkLocal(), v2(7)}}}};
  EXPECT_EQ(choose({two}), "bnxt_re0:2:2");
  EXPECT_THAT(choose({two}, "", true), AllOf(HasSubstr("bnxt_re0 port 1: not active"), HasSubstr("port 2: no GID"),
                                             HasSubstr("address 10.0.0.1")))
      << "the interface was named, and has no RDMA";
  EXPECT_EQ(choose({}), "no RDMA device");
}

TEST(VerbsPortTest, DevicePortAndGidCanBeNamed) {
  FakeDevice first{"mlx5_0", {{{v2(0)}}, {{linkLocal(), v1(7), v2(7)}}}}, second{"mlx5_1", {{{v2(8)}}}};
  EXPECT_EQ(choose({first, second}, "mlx5_1"), "mlx5_1:1:0");
  EXPECT_EQ(choose({first, second}, "mlx5_1", true), "mlx5_1:1:0") << "named, so its other address is meant";
  EXPECT_EQ(choose({first, second}, "mlx5_0:2"), "mlx5_0:2:2");
  EXPECT_EQ(choose({first, second}, "mlx5_0:2:1"), "mlx5_0:2:1");
  EXPECT_EQ(choose({first, second}, "mlx5_0::1"), "mlx5_0:2:1") << "its first port has no such GID";
  EXPECT_EQ(choose({second}, "::0"), "mlx5_1:1:0");
  EXPECT_THAT(choose({first, second}, "mlx5_9"),
              AllOf(HasSubstr("MAESTRO_IB_DEVICE=mlx5_9"), HasSubstr("mlx5_1: another device")));
  EXPECT_THAT(choose({first, second}, "mlx5_0:3"), HasSubstr("mlx5_0: has 2 ports"));
  EXPECT_THAT(choose({first, second}, "mlx5_0:2:9"), HasSubstr("mlx5_0 port 2: no GID 9"));
}

TEST(VerbsPortTest, WhatCannotBeReadIsRefused) {
  for (const char *wanted : {"mlx5_0:one", "mlx5_0:1:256", "mlx5_0:1:-1", "mlx5_0:1:2:3"}) {
    auto port = openVerbsPort(library, wanted, kAddress, false);
    ASSERT_FALSE(port.isOk()) << wanted;
    EXPECT_EQ(port.status().code(), StatusCode::InvalidInput);
    EXPECT_THAT(std::string(port.status().message()), HasSubstr(wanted));
  }
}

TEST(VerbsEndpointTest, TravelsWhole) {
  VerbsEndpoint endpoint;
  endpoint.lid = 77;
  endpoint.mtu = 5;
  endpoint.gid[15] = std::byte{9};
  endpoint.queues = {{0, 17, 0xabcdef}, {3, 0xffffff, 0}};
  std::vector<std::byte> bytes = encode(endpoint);
  auto again = decodeEndpoint(bytes);
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(encode(*again), bytes);
  EXPECT_EQ(again->queues[1].firstRank, 3u);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decodeEndpoint(std::span(bytes).first(length)).isOk()) << length;
  endpoint.queues[0].number = 1 << 24;
  EXPECT_FALSE(decodeEndpoint(encode(endpoint)).isOk()) << "a queue pair's number has 24 bits";
}

} // namespace
} // namespace maestro::transport
