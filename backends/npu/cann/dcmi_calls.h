#pragma once
// The functions over the types of dcmi.h.
#include "backends/npu/cann/dcmi.h"

extern "C" {
int dcmi_init(void);
int dcmi_get_dcmi_version(char* dcmi_ver, unsigned int len);
int dcmi_get_driver_version(char* driver_ver, unsigned int len);
int dcmi_get_card_list(int* card_num, int* card_list, int list_len);
int dcmi_get_device_num_in_card(int card_id, int* device_num);
int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id);
int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info* chip_info);
int dcmi_get_device_pcie_info_v2(int card_id, int device_id, struct dcmi_pcie_info_all* pcie_info);
int dcmi_get_device_power_info(int card_id, int device_id, int* power);  // tenths of a watt
int dcmi_get_device_health(int card_id, int device_id, unsigned int* health);
int dcmi_get_device_errorcode_v2(int card_id, int device_id, int* error_count, unsigned int* error_code_list,
                                 unsigned int list_len);
int dcmi_get_device_errorcode_string(int card_id, int device_id, unsigned int error_code, unsigned char* error_info,
                                     int buf_size);
int dcmi_get_device_temperature(int card_id, int device_id, int* temperature);
int dcmi_get_device_hbm_info(int card_id, int device_id, struct dcmi_hbm_info* hbm_info);
int dcmi_get_device_memory_info_v3(int card_id, int device_id, struct dcmi_get_memory_info_stru* memory_info);
int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int* utilization_rate);
int dcmi_get_device_logic_id(int* device_logic_id, int card_id, int device_id);
int dcmi_get_device_resource_info(int card_id, int device_id, struct dcmi_proc_mem_info* proc_info, int* proc_num);
int dcmi_get_topo_info_by_device_id(int card_id1, int device_id1, int card_id2, int device_id2, int* topo_type);
int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char* affinity_cpu, int* length);
}
