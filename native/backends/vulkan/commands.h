// What a GPU is given to do.
#pragma once
#include "memory.h"

namespace anneal::vulkan {

// Work for a GPU, put together and then done. What is dispatched between two barriers may run at the same time.
class Commands {
 public:
  enum class Use : uint8_t { once, again };  // again: once ended, they may be submitted any number of times
  explicit Commands(std::shared_ptr<Gpu>, Use = Use::once);
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // `parameters`: what the shader reads as push constants, 128 bytes at most.
  template <class P>
  void dispatch(const Gpu::Pipeline& pipeline, const P& parameters, int64_t x, int64_t y = 1, int64_t z = 1) {
    static_assert(sizeof(P) <= 128 && sizeof(P) % 4 == 0);
    dispatch(pipeline, &parameters, sizeof(P), x, y, z);
  }
  void copy(const Memory& from, int64_t at, const Memory& to, int64_t to_at, int64_t bytes);
  void zero(const Memory&, int64_t at, int64_t bytes);  // multiples of 4
  void barrier();                                       // what follows sees what stands before
  void end();                                           // of what is recorded, if submitting it comes later
  // What was recorded, after what `before` recorded, as one submission: then wait() is for both, and what is done with
  // `before` comes after that. Throws DeviceLost.
  void submit(Commands* before = nullptr);
  void wait();                           // until what was submitted is done; throws DeviceLost
  void run(Commands* before = nullptr);  // submits, and waits
  void discard();                        // what was recorded, and waits for what was submitted

 private:
  struct Unmade {};
  Commands(Unmade, std::shared_ptr<Gpu> gpu, Use use) : gpu_(std::move(gpu)), use_(use) {}
  void begin();
  void dispatch(const Gpu::Pipeline&, const void* parameters, size_t bytes, int64_t x, int64_t y, int64_t z);

  std::shared_ptr<Gpu> gpu_;
  vk::CommandPool pool_ = 0;
  vk::CommandBuffer commands_ = nullptr;
  vk::Fence fence_ = 0;
  Use use_;
  bool open_ = false, ended_ = false, submitted_ = false;
};

}  // namespace anneal::vulkan
