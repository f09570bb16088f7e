// What a GPU's model does where memory is scarce, and where calls of the driver fail: every kind of call, at calls of
// the driver from the first that may fail to the last.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "memory.h"
#include "open_gpu.h"
#include "small_model_fixture.h"

using namespace anneal::vulkan;
namespace backends = anneal::backends;

namespace {

// Functions of Vulkan carry no context.
vk::DeviceFunctions real;
vk::Result fault = vk::kOutOfDeviceMemory;
constexpr int kEach = 4;  // of the calls of the driver each of the first ones fails, and then fewer and fewer
int countdown = -1;       // calls before the one that fails; below 0: none does
bool only_memory = false;
bool is_due() { return countdown >= 0 && countdown-- == 0; }

template <class... P> using Function = vk::Result (*)(P...);
// A function of the driver, which fails when it is its turn.
template <auto Member> struct Failing;
template <class... P, Function<P...> vk::DeviceFunctions::* Member> struct Failing<Member> {
  static vk::Result call(P... arguments) { return is_due() ? fault : (real.*Member)(arguments...); }
};
// The work itself is done: a fence that is waited for must be.
vk::Result fail_wait(vk::Device device, uint32_t count, const vk::Fence* fences, vk::Bool32 all, uint64_t timeout) {
  const vk::Result result = real.wait_fences(device, count, fences, all, timeout);
  return is_due() ? fault : result;
}

template <auto... Members> void replace(vk::DeviceFunctions& call) { ((call.*Members = &Failing<Members>::call), ...); }
using F = vk::DeviceFunctions;
void lack_memory(F& call) {
  replace<&F::allocate_memory>(call);
  if (only_memory) return;
  replace<&F::create_buffer, &F::map_memory, &F::create_pipelines, &F::create_shader, &F::create_command_pool,
          &F::allocate_command_buffers, &F::create_fence, &F::begin_commands, &F::end_commands, &F::queue_submit>(call);
}
void lose_device(F& call) {
  replace<&F::queue_submit>(call);
  call.wait_fences = fail_wait;
}

// ---- what is done with a model, from loading it to drawing from what it has learnt

using Numbers = std::vector<float>;
struct World {
  OneThread pool;
  VulkanDevice device{pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); }};
  std::unique_ptr<backends::Backend> model;
  backends::AdapterRef adapter;
  std::unique_ptr<backends::Trainable> trainable;
  std::unique_ptr<backends::TrainPass> pass;
};

LoraSpec lora() {
  LoraSpec spec{.rank = 4, .alpha = 8};
  std::fill(std::begin(spec.targets), std::end(spec.targets), true);
  return spec;
}

// More than is submitted at once; more than a segment of attention.
constexpr int kPrompt = 270, kContext = 1100;

struct Tokens {
  std::vector<int32_t> ids, blocks;
  backends::Run run(int position, int count, const backends::AdapterRef& adapter, int first_page = 0) {
    ids.assign(size_t(count), 3);
    for (int page = first_page; page < 64; page++) blocks.push_back(page);
    backends::Run run{};
    run.tokens = ids.data(), run.count = count, run.position = position, run.blocks = blocks.data();
    run.recurrent = 0, run.adapter = adapter;
    return run;
  }
};

// Tokens at `position` and on, and one that is drawn after them.
Numbers draw(World& w, int position, int count, const backends::AdapterRef& adapter) {
  Tokens tokens;
  anneal::sampling::SamplingParams plain;
  plain.temperature = 0.9f, plain.seed = 5;
  const anneal::sampling::SamplingState state(plain, 64);
  backends::Run run = tokens.run(position, count, adapter);
  run.logits = backends::WantedLogits::last;
  backends::RowRequest request{.row = 0, .draw = &state, .prompt_token = 7, .prompt_top = 3};
  backends::RowResult result;
  check(w.model->sample(*w.model->step({&run, 1}), {&request, 1}, {&result, 1}), "a step is computed and sampled");
  return {float(result.sampled.token), result.sampled.logprob, result.prompt.logprob};
}

Numbers all_of(const World& w, backends::Trainable::Part part) {
  Numbers all;
  for (size_t t = 0; t < w.trainable->tensors().size(); t++) {
    Numbers values(size_t(w.trainable->tensors()[t].elements()));
    w.trainable->read(int(t), part, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Hidden states behind layers that another device computed, asked of one of two sequences.
Numbers states_behind(World& w) {
  constexpr int kHidden = 32;
  Tokens tokens[2];
  Numbers residual(kHidden, 0.5f), states(kHidden);
  backends::Run runs[] = {tokens[0].run(0, 1, nullptr), tokens[1].run(0, 1, nullptr, 32)};
  for (backends::Run& run : runs) run.residual_in = residual.data();
  runs[1].recurrent = 1, runs[1].states = states.data(), runs[1].state_count = 1;
  check(w.model->step(runs), "a step behind another device is computed");
  return states;
}

enum class Kind { plain, draw, draw_unfailed, optimize };
struct Call {
  const char* name;
  Numbers (*make)(World&);
  Kind kind = Kind::plain;
};
const Call kCalls[] = {
    {"load",
     [](World& w) {
       w.model = w.device.load(small_model(), {64, kStates}, "", reader(), nullptr);
       return Numbers{};
     }},
    {"load an adapter",
     [](World& w) {
       const Numbers values(4096, 0.05f);
       w.adapter = w.model->load_adapter(lora(), [&](int, int, bool) { return values.data(); });
       return Numbers{};
     }},
    {"states behind", states_behind},
    {"prefill", [](World& w) { return draw(w, 0, kPrompt, w.adapter); }, Kind::draw},
    {"prefill what follows", [](World& w) { return draw(w, kPrompt, kContext - kPrompt, w.adapter); },
     Kind::draw_unfailed},
    {"decode", [](World& w) { return draw(w, kContext, 1, w.adapter); }, Kind::draw},
    {"train an adapter",
     [](World& w) {
       w.trainable = w.model->train_adapter(lora(), 1, nullptr);
       return Numbers{};
     }},
    {"forward",
     [](World& w) {
       static const std::vector<int32_t> tokens(70, 3);
       const std::vector<backends::TrainRow> rows = {
           {.tokens = tokens}, {.tokens = std::span(tokens).first(9), .prefix = 0, .prefix_length = 37}};
       w.pass = w.model->forward(rows, w.trainable.get(), nullptr, {});
       const auto logprobs = w.pass->logprobs(0);
       return Numbers(logprobs.begin(), logprobs.end());
     }},
    {"backward",
     [](World& w) {
       const Numbers ones(70, 1.0f);
       const std::vector<std::span<const float>> by(2, ones);
       check(w.pass->backward(by, {}), "a pass goes back");
       return Numbers{};
     }},
    {"read",
     [](World& w) {
       w.pass.reset();
       return all_of(w, backends::Trainable::Part::gradient);
     }},
    {"optimStep", [](World& w) { return Numbers{float(w.trainable->optim_step({.learning_rate = 1e-2f}))}; },
     Kind::optimize},
    {"read what was learnt", [](World& w) { return all_of(w, backends::Trainable::Part::value); }},
    {"draw from it", [](World& w) { return draw(w, 0, 20, w.trainable->version()); }, Kind::draw},
};
constexpr size_t kCallCount = std::size(kCalls);

std::vector<Numbers> wanted() {
  World w;
  std::vector<Numbers> all;
  for (const Call& call : kCalls) {
    all.push_back(call.make(w));
    if (call.kind == Kind::optimize) check(all.back()[0] > 0, "there is something to learn");
  }
  return all;
}

void told(const Call& call, const std::string& what) { check(false, (call.name + (": " + what)).c_str()); }

enum class End { done, refused, otherwise };
struct Attempt {
  End end = End::otherwise;
  bool failed = false;  // a call of the driver was due, and did
  Numbers found;
};

// A call whose calls of the driver fail, as `arm` has them, at the one behind `before` others; `Refusal` is how it says
// so.
template <class Refusal> Attempt attempt(World& w, const Call& call, void (*arm)(F&), int before) {
  F& functions = w.device.gpu()->call;
  Attempt result;
  arm(functions), countdown = before;
  try {
    result.found = call.make(w), result.end = End::done;
  } catch (const Refusal&) {
    result.end = End::refused;
  } catch (const std::exception& error) {
    told(call, error.what());
  }
  result.failed = countdown < 0;
  functions = real, countdown = -1;
  return result;
}

// Attempts at every call, until `is_over`; answers how many were refused.
template <class Refusal, class IsOver> int attempt_all(World& w, void (*arm)(F&), IsOver&& is_over) {
  int refused = 0;
  for (size_t i = 0; i < kCallCount; i++) {
    if (kCalls[i].kind == Kind::draw_unfailed) {
      kCalls[i].make(w);
      continue;
    }
    // Of a step of AdamW what may be refused is memory, before its work begins.
    only_memory = kCalls[i].kind == Kind::optimize;
    for (int before = 0;; before += 1 + before / kEach) {
      const Attempt one = attempt<Refusal>(w, kCalls[i], arm, before);
      refused += one.end == End::refused;
      if (is_over(i, one)) break;
    }
  }
  return refused;
}

// What fails for want of memory is refused, changes nothing, and may be done again.
void test_refusals(const std::vector<Numbers>& all) {
  World w;
  real = w.device.gpu()->call;
  const int refused = attempt_all<backends::NoDeviceMemory>(w, lack_memory, [&](size_t i, const Attempt& one) {
    if (one.end == End::done && one.found != all[i]) told(kCalls[i], "has other results after it was refused");
    // What the host writes may lie in its own memory instead: then the call goes on.
    return !one.failed;
  });
  printf("%d calls of the driver failed for want of memory\n", refused);
}

// A device that is lost is told by every call, and is opened anew; where it was in the middle of does not matter.
void test_loss(const std::vector<Numbers>& all) {
  int lost = 0;
  {
    World w;
    const std::shared_ptr<Gpu> gpu = w.device.gpu();
    F& functions = gpu->call;
    real = functions, fault = vk::kDeviceLost;
    lost = attempt_all<backends::DeviceLost>(
        w, lose_device, [](size_t, const Attempt& one) { return one.end == End::done || !one.failed; });
    check(gpu->lost() && open_gpu(0) != gpu, "a device that was lost is opened anew");
    replace<&F::queue_submit>(functions), countdown = 0;
    w.model->copy_page(0, 1);
    countdown = -1, functions = real;
    check(throws<backends::DeviceLost>([&] { draw(w, 0, 5, nullptr); }), "a page that could not be copied is not read");
  }
  fault = vk::kOutOfDeviceMemory;
  printf("the device was lost %d times\n", lost);
  check(wanted() == all, "and computes as before");
}

// Also where it is memory that the driver lacks to wait, nobody knows what runs: the device counts as lost. A model
// whose work cannot be waited for goes without a word.
void test_failed_wait() {
  {
    World w;
    w.model = w.device.load(small_model(), {64, kStates}, "", reader(), nullptr);
    F& functions = w.device.gpu()->call;
    real = functions, fault = vk::kOutOfHostMemory;
    functions.wait_fences = fail_wait, countdown = 0;
    check(throws<backends::DeviceLost>([&] { draw(w, 0, 5, nullptr); }), "what cannot be waited for is lost");
    Tokens tokens;
    backends::Run run = tokens.run(0, 5, nullptr);
    run.logits = backends::WantedLogits::last;
    w.model->step({&run, 1}), w.model->start();
    countdown = 0;
    w.model.reset();
    check(countdown < 0, "a model waits for what it submitted before it goes");
    functions = real;
  }
  fault = vk::kOutOfDeviceMemory;
}

// ---- a small heap

int64_t heap_bytes = 0, taken = 0, allocated = 0, most_allocated = 0, allocations = 0;
std::map<vk::DeviceMemory, int64_t> sizes;  // of what was allocated
// The host's memory is not planned, where a device has a heap of its own.
bool is_own[vk::kMaxMemoryTypes] = {};  // by type
decltype(vk::InstanceFunctions::get_memory_properties) ask_driver = nullptr;
void find_own_types(vk::PhysicalDevice device, vk::PhysicalDeviceMemoryProperties2* to) {
  ask_driver(device, to);
  const vk::PhysicalDeviceMemoryProperties& memory = to->properties;
  uint32_t first = 0;
  while (!(memory.types[first].flags & vk::kMemoryDeviceLocal)) first++;
  for (uint32_t t = 0; t < memory.type_count; t++) is_own[t] = memory.types[t].heap == memory.types[first].heap;
}
// Of drivers that tell what is free, and of others, of whose heaps is free what this process has not taken.
void give_small_heap(vk::PhysicalDevice, vk::PhysicalDeviceMemoryProperties2* to) {
  auto* const budget = static_cast<vk::PhysicalDeviceMemoryBudgetProperties*>(to->next);
  for (uint32_t h = 0; h < vk::kMaxMemoryHeaps; h++) {
    to->properties.heaps[h].size = vk::DeviceSize(heap_bytes + taken);
    if (budget) budget->budget[h] = vk::DeviceSize(heap_bytes), budget->usage[h] = 0;
  }
}
vk::Result count_allocation(vk::Device device, const vk::MemoryAllocateInfo* info, const void* allocator,
                            vk::DeviceMemory* memory) {
  const vk::Result result = real.allocate_memory(device, info, allocator, memory);
  if (result >= 0 && is_own[info->memory_type]) allocations++, allocated += sizes[*memory] = int64_t(info->size);
  most_allocated = std::max(most_allocated, allocated);
  return result;
}
void count_release(vk::Device device, vk::DeviceMemory memory, const void* allocator) {
  if (const auto found = sizes.find(memory); found != sizes.end()) allocated -= found->second, sizes.erase(found);
  real.free_memory(device, memory, allocator);
}

// Every call says what it needs before it takes any of it, and takes no more. A draw is two of them: a step, and
// sampling.
void test_small_heap(const std::vector<Numbers>& all) {
  World w;
  Gpu& gpu = *w.device.gpu();
  constexpr int64_t kAlignment = 4096;
  const auto ask = gpu.instance_call;
  ask_driver = ask.get_memory_properties, gpu.instance_call.get_memory_properties = find_own_types;
  (void)gpu.available();
  gpu.instance_call = ask;
  real = gpu.call;
  gpu.call.allocate_memory = count_allocation, gpu.call.free_memory = count_release;
  for (size_t i = 0; i < kCallCount; i++) {
    const Call& call = kCalls[i];
    const bool is_draw = call.kind == Kind::draw || call.kind == Kind::draw_unfailed;
    int64_t needed = 0, planned = 0;
    Numbers found;
    const auto refused_with = [&](int64_t bytes) {
      heap_bytes = bytes, allocated = most_allocated = allocations = 0;
      taken = gpu.facts().memory - gpu.available();
      gpu.instance_call.get_memory_properties = give_small_heap;
      bool refused = true;
      try {
        found = call.make(w), refused = false;
      } catch (const backends::NoDeviceMemory& error) {
        needed = error.needed;
      } catch (const backends::NoRoom& error) {
        needed = error.needed;
      }
      gpu.instance_call = ask;
      if (refused && allocations > 0 && !is_draw)
        told(call, "took memory before it was refused: " + std::to_string(most_allocated) + " of " +
                       std::to_string(needed) + " bytes");
      return refused;
    };
    // With nothing; with a byte too few; with just enough.
    bool refused = refused_with(0);
    for (int part = 0; refused && part < 1 + is_draw; part++) {
      planned += needed;
      const int64_t wanted_now = needed;
      if (!refused_with(needed - 1)) told(call, "needs less than it says, " + std::to_string(wanted_now) + " bytes");
      if (needed != wanted_now)
        told(call,
             "does not know what it needs: " + std::to_string(wanted_now) + " bytes, then " + std::to_string(needed));
      refused = refused_with(needed);
    }
    if (refused)
      told(call, "needs more than it says: " + std::to_string(needed) + " bytes after " + std::to_string(planned));
    if (most_allocated > planned + allocations * kAlignment)
      told(call, "takes more than it says: " + std::to_string(most_allocated) + " bytes in " +
                     std::to_string(allocations) + " pieces, of " + std::to_string(planned));
    if (found != all[i]) told(call, "has other results with less memory");
    if (planned > 0) printf("%s: %lld bytes\n", call.name, static_cast<long long>(planned));
  }
  gpu.call = real;
}

// A piece that is larger than the device gives at once, or than shaders count, is refused before anything is taken.
void test_pieces() {
  World w;
  Gpu& gpu = *w.device.gpu();
  const int64_t page = page_bytes(type_of(small_model()), KvCache::int8, small_model().layers[0].attention);
  const int64_t pages = gpu.facts().max_allocation / page + 1;
  if (pages > 1 << 24) return;
  std::string said;
  try {
    w.device.load(small_model(), {int(pages), 1}, "", reader(), nullptr);
  } catch (const backends::NoDeviceMemory& error) {
    said = error.part;
  }
  check(said.ends_with(" in one piece"), ("pages that the device does not give at once are refused: " + said).c_str());
  check(throws<backends::NoDeviceMemory>([&] { Memory(w.device.gpu(), kMaxCounted + 4); }),
        "elements that shaders cannot count are refused");
}

// More tokens than a dispatch has workgroups.
void test_many_rows() {
  World w;
  w.model = w.device.load(small_model(), {64, kStates}, "", reader(), nullptr);
  w.trainable = w.model->train_adapter(lora(), 1, nullptr);
  check(throws<backends::UnusableDevice>([&] { draw(w, 0, 65'536, nullptr); }), "a step of too many tokens is refused");
  const std::vector<int32_t> tokens(4096, 3);
  const std::vector<backends::TrainRow> rows(16, {.tokens = tokens});
  check(throws<backends::UnusableDevice>([&] { w.model->forward(rows, w.trainable.get(), nullptr, {}); }),
        "so is a pass over as many");
  check(!draw(w, 0, 5, nullptr).empty(), "and others are computed after it");
}

}  // namespace

int main() {
  if (Gpu::list().empty()) {
    printf("no Vulkan device: not tried\n");
  } else {
    // As long as somebody has it open, a GPU keeps what it made of shaders; that may be refused as well.
    std::shared_ptr<Gpu> kept = open_gpu(0);
    const std::vector<Numbers> all = wanted();
    test_small_heap(all);
    test_pieces();
    test_many_rows();
    kept.reset(), kept = open_gpu(0);
    test_refusals(all);
    test_failed_wait();
    test_loss(all);
  }
  if (failures == 0)
    puts("ok");
  else
    printf("failed:\n%s", failed.c_str());
  return failures != 0;
}
