// The declarations of Vulkan in api.h against the system's headers.
#include "api.h"

#if __has_include(<vulkan/vulkan_core.h>)
#include <vulkan/vulkan_core.h>
#define ANNEAL_HAS_HEADERS
#endif

#include <cstdio>

#ifdef ANNEAL_HAS_HEADERS
using namespace anneal::vulkan;

#define SAME_SIZE(name) static_assert(sizeof(vk::name) == sizeof(Vk##name))
#define SAME_PLACE(name, ours, theirs) static_assert(offsetof(vk::name, ours) == offsetof(Vk##name, theirs))
#define SAME_VALUE(ours, theirs) static_assert(uint64_t(vk::ours) == uint64_t(theirs))

SAME_SIZE(ApplicationInfo);
SAME_SIZE(InstanceCreateInfo);
SAME_SIZE(ExtensionProperties);
SAME_SIZE(PhysicalDeviceProperties);
SAME_SIZE(PhysicalDeviceProperties2);
SAME_SIZE(PhysicalDeviceMaintenance3Properties);
SAME_SIZE(PhysicalDeviceDriverProperties);
SAME_SIZE(PhysicalDeviceFloatControlsProperties);
SAME_SIZE(PhysicalDeviceFeatures);
SAME_SIZE(PhysicalDeviceFeatures2);
SAME_SIZE(PhysicalDeviceVulkan11Features);
SAME_SIZE(PhysicalDeviceVulkan12Features);
SAME_SIZE(PhysicalDeviceSubgroupProperties);
SAME_SIZE(PhysicalDeviceSubgroupSizeControlFeatures);
SAME_SIZE(PipelineShaderStageRequiredSubgroupSizeCreateInfo);
SAME_SIZE(QueueFamilyProperties);
SAME_SIZE(PhysicalDeviceMemoryProperties2);
static_assert(sizeof(vk::PhysicalDeviceMemoryBudgetProperties) == sizeof(VkPhysicalDeviceMemoryBudgetPropertiesEXT));
SAME_SIZE(DeviceQueueCreateInfo);
SAME_SIZE(DeviceCreateInfo);
SAME_SIZE(BufferCreateInfo);
SAME_SIZE(MemoryRequirements);
SAME_SIZE(MemoryAllocateFlagsInfo);
SAME_SIZE(MemoryAllocateInfo);
SAME_SIZE(BufferDeviceAddressInfo);
SAME_SIZE(ShaderModuleCreateInfo);
SAME_SIZE(SpecializationMapEntry);
SAME_SIZE(SpecializationInfo);
SAME_SIZE(PipelineShaderStageCreateInfo);
SAME_SIZE(ComputePipelineCreateInfo);
SAME_SIZE(PushConstantRange);
SAME_SIZE(PipelineLayoutCreateInfo);
SAME_SIZE(PipelineCacheCreateInfo);
SAME_SIZE(CommandPoolCreateInfo);
SAME_SIZE(CommandBufferAllocateInfo);
SAME_SIZE(CommandBufferBeginInfo);
SAME_SIZE(MemoryBarrier);
SAME_SIZE(BufferCopy);
SAME_SIZE(FenceCreateInfo);
SAME_SIZE(SubmitInfo);

static_assert(vk::kLimitsBytes == sizeof(VkPhysicalDeviceLimits));
static_assert(vk::kMaxSharedMemoryAt == offsetof(VkPhysicalDeviceLimits, maxComputeSharedMemorySize));
static_assert(vk::kMaxGroupsAt == offsetof(VkPhysicalDeviceLimits, maxComputeWorkGroupCount));
static_assert(vk::kMaxInvocationsAt == offsetof(VkPhysicalDeviceLimits, maxComputeWorkGroupInvocations));
SAME_PLACE(PhysicalDeviceProperties, device_type, deviceType);
SAME_PLACE(PhysicalDeviceProperties, limits, limits);
SAME_PLACE(PhysicalDeviceFeatures, shader_float64, shaderFloat64);
SAME_PLACE(PhysicalDeviceVulkan11Features, storage_buffer_16_bit_access, storageBuffer16BitAccess);
SAME_PLACE(PhysicalDeviceVulkan12Features, buffer_device_address, bufferDeviceAddress);
SAME_PLACE(PhysicalDeviceVulkan12Features, shader_float16, shaderFloat16);
SAME_PLACE(PhysicalDeviceVulkan12Features, vulkan_memory_model, vulkanMemoryModel);
SAME_PLACE(PhysicalDeviceFloatControlsProperties, signed_zero_inf_nan_preserve32,
           shaderSignedZeroInfNanPreserveFloat32);
SAME_PLACE(PhysicalDeviceFloatControlsProperties, denorm_flush32, shaderDenormFlushToZeroFloat32);
SAME_PLACE(PhysicalDeviceFloatControlsProperties, rounding_rte32, shaderRoundingModeRTEFloat32);
SAME_PLACE(ComputePipelineCreateInfo, layout, layout);
SAME_PLACE(PipelineShaderStageCreateInfo, specialization, pSpecializationInfo);
SAME_PLACE(SubmitInfo, buffers, pCommandBuffers);

SAME_VALUE(kPhysicalDeviceVulkan11Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
SAME_VALUE(kPhysicalDeviceVulkan12Features, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
SAME_VALUE(kPhysicalDeviceFeatures2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
SAME_VALUE(kPhysicalDeviceProperties2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
SAME_VALUE(kPhysicalDeviceMemoryProperties2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
SAME_VALUE(kMemoryAllocateFlagsInfo, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
SAME_VALUE(kPhysicalDeviceMaintenance3Properties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
SAME_VALUE(kPhysicalDeviceDriverProperties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
SAME_VALUE(kPhysicalDeviceFloatControlsProperties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
SAME_VALUE(kPhysicalDeviceMemoryBudgetProperties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
SAME_VALUE(kBufferDeviceAddressInfo, VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
SAME_VALUE(kMemoryBarrier, VK_STRUCTURE_TYPE_MEMORY_BARRIER);
SAME_VALUE(kComputePipelineCreateInfo, VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
SAME_VALUE(kPipelineLayoutCreateInfo, VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
SAME_VALUE(kUsageDeviceAddress, VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT);
SAME_VALUE(kAllocateDeviceAddress, VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT);
SAME_VALUE(kInstanceEnumeratePortability, VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR);
SAME_VALUE(kPhysicalDeviceSubgroupProperties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
SAME_VALUE(kPhysicalDeviceSubgroupSizeControlFeatures,
           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
SAME_VALUE(kPipelineShaderStageRequiredSubgroupSizeCreateInfo,
           VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
SAME_VALUE(kRequireFullSubgroups, VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT);
#ifdef VK_KHR_shader_integer_dot_product
static_assert(sizeof(vk::PhysicalDeviceShaderIntegerDotProductFeatures) ==
              sizeof(VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR));
static_assert(sizeof(vk::PhysicalDeviceShaderIntegerDotProductProperties) ==
              sizeof(VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR));
static_assert(offsetof(vk::PhysicalDeviceShaderIntegerDotProductProperties, packed_signed_bytes_accelerated) ==
              offsetof(VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR,
                       integerDotProduct4x8BitPackedSignedAccelerated));
SAME_VALUE(kPhysicalDeviceShaderIntegerDotProductFeatures,
           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR);
SAME_VALUE(kPhysicalDeviceShaderIntegerDotProductProperties,
           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR);
#endif
#ifdef VK_KHR_cooperative_matrix
static_assert(sizeof(vk::PhysicalDeviceCooperativeMatrixFeatures) ==
              sizeof(VkPhysicalDeviceCooperativeMatrixFeaturesKHR));
static_assert(sizeof(vk::CooperativeMatrixProperties) == sizeof(VkCooperativeMatrixPropertiesKHR));
static_assert(offsetof(vk::CooperativeMatrixProperties, scope) == offsetof(VkCooperativeMatrixPropertiesKHR, scope));
SAME_VALUE(kPhysicalDeviceCooperativeMatrixFeatures, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
SAME_VALUE(kCooperativeMatrixProperties, VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
SAME_VALUE(kComponentFloat16, VK_COMPONENT_TYPE_FLOAT16_KHR);
SAME_VALUE(kComponentFloat32, VK_COMPONENT_TYPE_FLOAT32_KHR);
SAME_VALUE(kScopeSubgroup, VK_SCOPE_SUBGROUP_KHR);
#endif
SAME_VALUE(kPipelineStageHost, VK_PIPELINE_STAGE_HOST_BIT);
SAME_VALUE(kAccessHostRead, VK_ACCESS_HOST_READ_BIT);
#endif

int main() {
#ifdef ANNEAL_HAS_HEADERS
  puts("the same");
#else
  puts("no headers of Vulkan: not compared");
#endif
}
