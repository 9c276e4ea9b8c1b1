#pragma once
// libdcmi.so: what npu-smi shows. A card holds one or more devices; ids are the driver's, whatever
// ASCEND_RT_VISIBLE_DEVICES says. Each function returns 0 or one of DCMI_ERR_*.
enum {
  DCMI_OK = 0,
  DCMI_ERR_CODE_INVALID_PARAMETER = -8001,
  DCMI_ERR_CODE_OPER_NOT_PERMITTED = -8002,
  DCMI_ERR_CODE_MEM_OPERATE_FAIL = -8003,
  DCMI_ERR_CODE_INNER_ERR = -8005,
  DCMI_ERR_CODE_TIME_OUT = -8006,
  DCMI_ERR_CODE_INVALID_DEVICE_ID = -8007,
  DCMI_ERR_CODE_DEVICE_NOT_EXIST = -8008,
  DCMI_ERR_CODE_IOCTL_FAIL = -8009,
  DCMI_ERR_CODE_NOT_REDAY = -8012,
  DCMI_ERR_CODE_NOT_SUPPORT_IN_CONTAINER = -8013,
  DCMI_ERR_CODE_RESOURCE_OCCUPIED = -8020,
  DCMI_ERR_CODE_NOT_SUPPORT = -8255,
};

enum {
  DCMI_TOPO_TYPE_SELF = 0,
  DCMI_TOPO_TYPE_SYS = 1,
  DCMI_TOPO_TYPE_PHB = 2,
  DCMI_TOPO_TYPE_HCCS = 3,
  DCMI_TOPO_TYPE_PXB = 4,
  DCMI_TOPO_TYPE_PIX = 5,
  DCMI_TOPO_TYPE_SIO = 6,
  DCMI_TOPO_TYPE_HCCS_SW = 7,
};

struct dcmi_chip_info {
  unsigned char chip_type[32];
  unsigned char chip_name[32];
  unsigned char chip_ver[32];
  unsigned int aicore_cnt;
};

struct dcmi_pcie_info_all {
  unsigned int venderid;
  unsigned int subvenderid;
  unsigned int deviceid;
  unsigned int subdeviceid;
  int domain;
  unsigned int bdf_busid;
  unsigned int bdf_deviceid;
  unsigned int bdf_funcid;
  unsigned char reserve[32];
};

struct dcmi_hbm_info {
  unsigned long long memory_size;  // MB
  unsigned int freq;
  unsigned long long memory_usage;  // MB
  int temp;
  unsigned int bandwith_util_rate;
};

struct dcmi_get_memory_info_stru {
  unsigned long long memory_size;  // MB
  unsigned long long memory_available;
  unsigned int freq;
  unsigned long hugepagesize;  // KB
  unsigned long hugepages_total;
  unsigned long hugepages_free;
  unsigned int utiliza;
  unsigned char reserve[60];
};

struct dcmi_proc_mem_info {
  int proc_id;
  unsigned long proc_mem_usage;
};
