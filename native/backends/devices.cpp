#include "devices.h"

#include "cpu/cpu_device.h"

namespace anneal::backends {

std::unique_ptr<Device> open_device(executor::Pool& pool) { return std::make_unique<cpu::CpuDevice>(pool); }

}  // namespace anneal::backends
