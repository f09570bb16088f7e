// A GPU opened for compute: its memory, its queue, and what it says and shows of its arithmetic. Calls are made by one
// thread at a time, but for the end of a Memory.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "../backend.h"
#include "loader.h"
#include "shaders/spirv.h"

namespace anneal::vulkan {

using backends::DeviceLost;
using backends::NoDeviceMemory;

// The compute type: rows of it begin on 16 bytes, and that many bytes of it are a granule.
struct ElementType {
  bool bf16 = false;
  int bytes() const { return bf16 ? 2 : 4; }
  int granule() const { return 16 / bytes(); }
  // Of a row of n elements.
  int granules(int n) const { return (n + granule() - 1) / granule(); }
  int ld(int n) const { return granules(n) * granule(); }
  int64_t row_bytes(int n) const { return int64_t(granules(n)) * 16; }
};

// Cooperative matrices of float16 with sums of float32, as a GPU has them: A [m][k], B [k][n]. m 0: it has none.
struct MatrixShape {
  int m = 0, n = 0, k = 0, subgroup = 0;  // invocations of a subgroup
  explicit operator bool() const { return m > 0; }
};

constexpr int kMatrixSubgroups = 8;  // of a workgroup on them (shaders/cooperative.glsl)

// Where memory lies, and who reads it.
enum class Place : uint8_t { device, upload, readback };
// Shaders count elements of a piece of memory by signed numbers of 32 bits, the smallest of which have 2 bytes. Pieces
// whose parts they are given by addresses of their own may be larger.
constexpr int64_t kMaxCounted = int64_t(4) << 30;
enum class Parts : uint8_t { counted, addressed };
constexpr vk::Flags kBufferUsage =
    vk::kUsageTransferSource | vk::kUsageTransferDestination | vk::kUsageStorage | vk::kUsageDeviceAddress;

// Products of four signed bytes at once (shaders/byte_products.glsl). slow: done of other instructions by the driver.
enum class ByteProducts : uint8_t { none, slow, fast };

// What a GPU is, before anything is computed on it.
struct GpuFacts {
  std::string name, driver;
  vk::DeviceType type = vk::kOther;
  int64_t memory = 0, available = 0;  // bytes: of the largest heap of its own, and of it what this process could take
  int64_t max_allocation = 0;         // bytes that can be taken at once
  bool flushes_denormals = false;     // can be told to
  MatrixShape matrices;               // of the fast family
  ByteProducts byte_products = ByteProducts::none;
  std::string missing;  // what it lacks of what is needed; empty: nothing
};

// What one that is open computes like, as a shader of probes shows.
struct GpuArithmetic {
  bool fused = false;  // its fma rounds once; else that is done in double precision
  bool exact = false;  // sums, products, quotients, roots, exp and log have the processor's bits
  // Of all its loops together an invocation takes so many turns, and then ends every loop, as that of Mesa 22 in
  // software does; what takes more is done in several dispatches, or refused. kNoEnd: no end was met.
  static constexpr int kNoEnd = INT32_MAX;
  int max_turns = kNoEnd;
};

// Memory that nobody uses, and that is let go of where a plan needs it. Any thread.
class Spare {
 public:
  virtual ~Spare() = default;
  virtual int64_t bytes() const = 0;  // of the device's own memory
  virtual void let_go() = 0;
};

class Gpu {
 public:
  // Of all GPUs with Vulkan 1.2, in the loader's order; empty without a loader.
  static std::vector<GpuFacts> list();
  // Device `index` of the loader. Throws backends::UnusableDevice. `pipelines`: what pipelines() gave, of this driver
  // or another; empty: nothing. open_gpu() is for everybody else.
  explicit Gpu(int index, std::span<const uint8_t> pipelines = {});
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuFacts& facts() const { return facts_; }
  const GpuArithmetic& arithmetic() const { return arithmetic_; }
  void set_arithmetic(const GpuArithmetic&);  // before anything is computed
  bool has_doubles() const { return has_doubles_; }
  bool has_budget() const { return has_budget_; }  // tells what others leave of its memory
  bool lost() const { return lost_; }
  int64_t available() const;                            // bytes that could be taken now in all, spare ones among them
  int max_groups() const { return max_groups_; }        // of a dispatch, in each direction
  int shared_memory() const { return shared_memory_; }  // bytes of a workgroup
  int max_invocations() const { return max_invocations_; }  // of a workgroup, along x

  // What memory is taken for from here on ("the model's weights"). Throws NoDeviceMemory unless so many bytes of it are
  // there, and as many at once as the largest piece has: then nothing has been taken.
  void plan(std::string part, int64_t bytes, int64_t largest = 0);
  void count_as_spare(const std::shared_ptr<Spare>&);

  // Throws UnusableDevice for more tokens than one dispatch has workgroups.
  bool ends_loops() const { return arithmetic_.max_turns != GpuArithmetic::kNoEnd; }
  // Whether an invocation may take so many turns of loops.
  bool takes_turns(int64_t turns) const { return turns < arithmetic_.max_turns; }
  // Throws backends::UnusableDevice where it may not.
  void require_turns(const std::string& part, int64_t turns) const;
  void require_rows(const std::string& part, int rows) const;

  // Throws DeviceLost and NoDeviceMemory for what a call says.
  void check(vk::Result, int64_t bytes = 0) const;

  struct Pipeline {
    vk::Pipeline handle;
  };
  // Made at first use. `constants`: of the shader's specialisation from id 1 on; 0 is the type's.
  const Pipeline& pipeline(Shader, ElementType = {}, const std::vector<uint32_t>& constants = {});
  // Of one on cooperative matrices, whose shape stands behind the constants, and a tile's behind that; in bfloat16.
  const Pipeline& matrix_pipeline(Shader, std::vector<uint32_t> constants, std::initializer_list<uint32_t> tile = {});
  vk::PipelineLayout layout() const { return layout_; }
  // What the driver made of shaders so far, for a later Gpu. Any thread.
  std::vector<uint8_t> pipelines() const;

  // Whether the host writes a device's own memory straight where it can, as with one memory for both; else copies go
  // through memory of its own, which the device reads at a bus's full speed.
  bool writes_straight = false;
  // Replaced by tests that let calls fail, and make memory scarce.
  vk::DeviceFunctions call;
  vk::InstanceFunctions instance_call;
  vk::Device handle = nullptr;
  vk::Queue queue = nullptr;
  uint32_t family = 0;

 private:
  Gpu() = default;
  friend class Memory;
  friend class MemoryPlan;
  // Bytes of a piece at most.
  int64_t max_piece(Parts) const;
  // Whether memory of that place is the device's own, which is what is planned.
  bool is_own(Place) const;
  uint32_t types_of_buffers() const;
  void forget_pipelines();
  int64_t unused() const;  // bytes that nobody has
  template <class F> void each_spare(F&&) const;
  const Pipeline& make_pipeline(Shader, ElementType, std::vector<uint32_t> constants, int subgroup);

  std::shared_ptr<const Instance> instance_;
  vk::PhysicalDevice physical_ = nullptr;
  GpuFacts facts_;
  GpuArithmetic arithmetic_;
  bool preserves_specials_ = false, rounds_to_even_ = false, has_doubles_ = false;
  int max_groups_ = 65535, shared_memory_ = 0, max_invocations_ = 256;
  bool has_budget_ = false;
  mutable std::atomic<bool> lost_{false};
  std::vector<uint32_t> memory_types_[3];  // by place, the best first
  vk::PhysicalDeviceMemoryProperties memory_;
  uint32_t heap_ = 0;              // of a device's own memory
  std::atomic<int64_t> taken_{0};  // bytes of it
  std::string part_ = "a buffer";
  mutable std::mutex spare_mutex_;
  std::vector<std::weak_ptr<Spare>> spare_;
  vk::PipelineLayout layout_ = 0;
  vk::PipelineCache cache_ = 0;
  std::map<std::pair<Shader, std::vector<uint32_t>>, Pipeline> pipelines_;
};

// Whether what pipelines() gave is of this device's driver. Drivers look themselves, and not all of them well.
bool are_of(std::span<const uint8_t> pipelines, const vk::PhysicalDeviceProperties& device);

}  // namespace anneal::vulkan
