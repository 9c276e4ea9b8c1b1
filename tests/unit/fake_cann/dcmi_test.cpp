// The fake's management library counts what is installed, and says no where the driver's does.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/npu/cann/dcmi_calls.h"

namespace {

class Dcmi : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERN_FAKE_CANN_CHIP", "910_9391", 1);
    setenv("TERN_FAKE_CANN_DEVICES", "3", 1);
    setenv("ASCEND_RT_VISIBLE_DEVICES", "1", 1);
    library_ = dlopen(FAKE_CANN_DIR "/libdcmi.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    for (const char* name : {"TERN_FAKE_CANN_CHIP", "TERN_FAKE_CANN_DEVICES", "ASCEND_RT_VISIBLE_DEVICES",
                             "TERN_FAKE_DCMI_FAULT", "TERN_FAKE_DCMI_HEALTH"}) {
      unsetenv(name);
    }
  }
  template <typename Function>
  Function* get(Function*, const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

 private:
  void* library_ = nullptr;
};

#define DCMI(name) get(static_cast<decltype(&::name)>(nullptr), #name)

TEST_F(Dcmi, CountsCardsAndTheirChipsWhateverIsVisible) {
  unsigned health = 9;
  EXPECT_EQ(DCMI(dcmi_get_device_health)(0, 0, &health), DCMI_ERR_CODE_NOT_REDAY) << "before dcmi_init";
  ASSERT_EQ(DCMI(dcmi_init)(), DCMI_OK);
  int cards[8] = {};
  int count = 0;
  ASSERT_EQ(DCMI(dcmi_get_card_list)(&count, cards, 8), DCMI_OK);
  EXPECT_EQ(count, 2) << "an A3's card has two chips, and the second card here one";
  EXPECT_EQ(DCMI(dcmi_get_card_list)(&count, cards, 1), DCMI_ERR_CODE_INVALID_PARAMETER) << "no room for both";
  int chips = 0, mcu = 0, cpu = 0, number = 0, link = 0;
  ASSERT_EQ(DCMI(dcmi_get_device_id_in_card)(1, &chips, &mcu, &cpu), DCMI_OK);
  EXPECT_EQ(chips, 1);
  ASSERT_EQ(DCMI(dcmi_get_device_logic_id)(&number, 1, 0), DCMI_OK);
  EXPECT_EQ(number, 2);
  EXPECT_EQ(DCMI(dcmi_get_device_logic_id)(&number, 1, 1), DCMI_ERR_CODE_INVALID_DEVICE_ID);
  ASSERT_EQ(DCMI(dcmi_get_topo_info_by_device_id)(0, 0, 0, 1, &link), DCMI_OK);
  EXPECT_EQ(link, DCMI_TOPO_TYPE_SIO);
  ASSERT_EQ(DCMI(dcmi_get_topo_info_by_device_id)(0, 0, 1, 0, &link), DCMI_OK);
  EXPECT_EQ(link, DCMI_TOPO_TYPE_HCCS_SW);
  setenv("TERN_FAKE_DCMI_HEALTH", "2=3", 1);
  ASSERT_EQ(DCMI(dcmi_get_device_health)(1, 0, &health), DCMI_OK);
  EXPECT_EQ(health, 3U);
  setenv("TERN_FAKE_DCMI_FAULT", "dcmi_get_device_health=-8013", 1);
  EXPECT_EQ(DCMI(dcmi_get_device_health)(1, 0, &health), DCMI_ERR_CODE_NOT_SUPPORT_IN_CONTAINER);
}

#undef DCMI

}  // namespace
