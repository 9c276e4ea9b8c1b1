// If these fail, tern topo tells a wrong link of devices whose backend tells none, and ranks land on far processors.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "accel/inspection.h"
#include "tests/support/temp_dir.h"

namespace tern::accel::test {
namespace {

namespace fs = std::filesystem;

// A machine of two host bridges; below the first a switch with two devices, another with one, and a device beside them.
class PciPlace : public testing::Test {
 protected:
  void SetUp() override {
    add("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0", "0-3");
    add("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0", "0-3");
    add("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0", "0-3");
    add("pci0000:00/0000:00:02.0/0000:08:00.0", "0-3");
    add("pci0000:80/0000:80:01.0/0000:81:00.0", "4-7");
    scratch_.write("devices/system/node/node1/cpulist", "4-7\n");
  }
  [[nodiscard]] std::string link(const char* from, const char* to, const char* name = "pcie",
                                 std::uint64_t peers = 0) const {
    return derived_link(device(from, name, peers), device(to, name, peers), 1, scratch_.path());
  }
  [[nodiscard]] std::string affinity(const char* address, int numa_node) const {
    tern_device_info info = device(address, "pcie", 0);
    info.numa_node = numa_node;
    return derived_affinity(info, scratch_.path());
  }

 private:
  static tern_device_info device(const char* address, const char* link, std::uint64_t peers) {
    tern_device_info info{};
    std::strncpy(info.pci_address, address, sizeof info.pci_address - 1);
    std::strncpy(info.link, link, sizeof info.link - 1);
    info.peer_mask = peers;
    return info;
  }
  void add(const std::string& path, const char* cpus) {
    const auto folder = scratch_ / ("devices/" + path);
    scratch_.write("devices/" + path + "/local_cpulist", std::string(cpus) + "\n");
    fs::create_directories(scratch_ / "bus/pci/devices");
    fs::create_directory_symlink(folder, scratch_ / ("bus/pci/devices/" + folder.filename().string()));
  }
  ::tern::test::TempDir scratch_;
};

TEST_F(PciPlace, TellsHowFarTwoDevicesAreApart) {
  EXPECT_EQ(link("0000:03:00.0", "0000:04:00.0"), "PIX");
  EXPECT_EQ(link("0000:03:00.0", "0000:07:00.0"), "PXB");
  EXPECT_EQ(link("0000:07:00.0", "0000:03:00.0"), "PXB");
  EXPECT_EQ(link("0000:03:00.0", "0000:08:00.0"), "PHB");
  EXPECT_EQ(link("0000:03:00.0", "0000:81:00.0"), "SYS");
}

TEST_F(PciPlace, ALinkOfItsOwnCountsWhereTheDevicesArePeers) {
  EXPECT_EQ(link("0000:03:00.0", "0000:81:00.0", "nvlink", 2), "NVLINK");
  EXPECT_EQ(link("0000:03:00.0", "0000:81:00.0", "nvlink", 0), "SYS") << "no peer";
  EXPECT_EQ(link("0000:03:00.0", "0000:81:00.0", "pcie", 2), "SYS") << "peers over PCIe are as far as they are";
}

TEST_F(PciPlace, WhatIsNotOnTheBusHasItsLinksNameAlone) {
  EXPECT_EQ(link("", ""), "PCIE");
  EXPECT_EQ(link("0000:99:00.0", "0000:03:00.0", ""), "?");
}

TEST_F(PciPlace, ProcessorsAreThoseNearTheDeviceElseOfItsNode) {
  EXPECT_EQ(affinity("0000:81:00.0", 0), "4-7");
  EXPECT_EQ(affinity("", 1), "4-7");
  EXPECT_EQ(affinity("", -1), "");
  EXPECT_EQ(affinity("0000:99:00.0", 7), "");
}

}  // namespace
}  // namespace tern::accel::test
