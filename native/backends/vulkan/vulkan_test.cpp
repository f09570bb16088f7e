// The Vulkan backend on the first device there is: its arithmetic against the processor's kernels, and what it does
// when calls of the driver fail.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "../cpu/kernels/exp_log.h"
#include "open_gpu.h"
#include "place_probe.h"
#include "probe.h"
#include "shader_words.h"
#include "vulkan_device.h"

using namespace anneal::vulkan;
namespace backends = anneal::backends;
namespace cpu = anneal::cpu;

namespace {

int failures = 0;

void check(bool ok, const char* what) {
  if (ok) return;
  printf("FAILED: %s\n", what);
  failures++;
}

template <class E, class F> bool throws(F&& f) {
  try {
    f();
  } catch (const E&) {
    return true;
  }
  return false;
}

std::vector<float> computed_by_kernels(Probe p) {
  anneal::executor::FloatMode mode;
  const std::vector<float> in = probe_inputs();
  std::vector<float> out(kProbeCount);
  for (int i = 0; i < kProbeCount; i++) {
    const float a = in[size_t(i)];
    const cpu::F32x16 x = cpu::all(a), y = cpu::all(in[size_t(i + kProbeCount)]), size = cpu::all(std::fabs(a)),
                      z = cpu::all(in[size_t(i + 2 * kProbeCount)]);
    cpu::bf16 narrow;
    cpu::narrow(a, narrow);
    const cpu::F32x16 results[kProbes] = {cpu::fma(x, y, z),
                                          cpu::fma(x, y, z),
                                          x + y,
                                          x - y,
                                          x * y,
                                          x / y,
                                          cpu::sqrt(size),
                                          cpu::exp(x),
                                          cpu::log(size),
                                          cpu::tanh(x),
                                          cpu::all(cpu::widen(narrow)),
                                          x * y + z};
    out[size_t(i)] = cpu::lane0(results[p]);
  }
  return out;
}

struct OneThread final : anneal::executor::Pool {
  int workers() const override { return 1; }
  bool run(int64_t chunks, anneal::executor::ChunkFn f, void* context) override {
    for (int64_t i = 0; i < chunks; i++) f(context, i, 0);
    return true;
  }
};

// Keeps rows of logits as they are given.
struct NoSampler final : backends::Backend {
  ModelSpec spec_;
  const ModelSpec& spec() const override { return spec_; }
  const char* name() const override { return "none"; }
  int pages() const override { return 0; }
  const backends::Logits* step(std::span<const backends::Run>) override { return &none_; }
  bool sample(const backends::Logits&, std::span<const backends::RowRequest>, std::span<backends::RowResult>) override {
    return false;
  }
  void copy_page(int, int) override {}
  backends::AdapterRef load_adapter(const LoraSpec&, const backends::AdapterValues&) override { return nullptr; }
  std::unique_ptr<backends::Trainable> train_adapter(const LoraSpec&, uint64_t,
                                                     const backends::AdapterValues*) override {
    return nullptr;
  }
  std::unique_ptr<backends::Trainable> train_weights() override { return nullptr; }
  std::unique_ptr<backends::TrainPass> forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                               const backends::AdapterRef&, const backends::PassOptions&) override {
    return nullptr;
  }

 private:
  backends::Logits none_;
};

// Of attention with gates over codes, and of the delta rule, in turns.
ModelSpec small_model(int layers = 2) {
  ModelSpec m;
  m.hidden = 32, m.vocab = 64, m.max_positions = 4096, m.tied_head = true;
  m.kv_cache = KvCache::int8;
  LayerSpec attends, recurs;
  attends.attention.heads = 4, attends.attention.kv_heads = 2, attends.attention.head_dim = 8;
  attends.attention.output_gate = true;
  recurs.delta_rule = {.key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 8, .kernel = 4};
  attends.feed_forward.intermediate = recurs.feed_forward.intermediate = 48;
  for (int l = 0; l < layers; l++) m.layers.push_back(l % 2 ? recurs : attends);
  return m;
}
constexpr int kStates = 256;

backends::TensorReader reader() {
  return {[](const std::string& name, int64_t row0, int64_t rows, float* to) {
    const auto is = [&](const char* part) { return name.find(part) != std::string::npos; };
    const int64_t cols = is("down")                                     ? 48
                         : is("conv1d") || is("A_log") || is("dt_bias") ? 4
                         : is("linear_attn.norm")                       ? 8
                                                                        : 32;
    for (int64_t i = 0; i < rows * cols; i++) to[i] = float((row0 * cols + i) % 17 - 8) / 16;
  }};
}

// Bytes that a heap of the GPU seems to have; functions of Vulkan carry no context.
int64_t heap_bytes = 0;
void give_small_heap(vk::PhysicalDevice, vk::PhysicalDeviceMemoryProperties2* to) {
  auto& budget = *static_cast<vk::PhysicalDeviceMemoryBudgetProperties*>(to->next);
  for (int h = 0; h < vk::kMaxMemoryHeaps; h++) budget.budget[h] = vk::DeviceSize(heap_bytes), budget.usage[h] = 0;
}
int allocations = 0;
vk::DeviceFunctions counted;
vk::Result count_allocation(vk::Device device, const vk::MemoryAllocateInfo* info, const void* allocator,
                            vk::DeviceMemory* memory) {
  allocations++;
  return counted.allocate_memory(device, info, allocator, memory);
}

// What does not fit is refused before any of it is taken, by its name, its size and what is there.
template <class Load> void test_small_heap(const std::shared_ptr<Gpu>& gpu, const VulkanDevice& device, Load&& load) {
  if (!gpu->has_budget()) return;
  counted = gpu->call;
  const auto working = gpu->instance_call;
  gpu->call.allocate_memory = count_allocation;
  const auto refused = [&](int64_t heap, const std::string& part, auto&& f) {
    gpu->instance_call.get_memory_properties = give_small_heap, heap_bytes = heap, allocations = 0;
    bool told = false;
    try {
      f();
    } catch (const NoDeviceMemory& error) {
      told = error.part.find(part) != std::string::npos && error.available == heap && error.needed > heap;
    }
    gpu->instance_call = working;
    check(told && allocations == 0, ("refused before memory is taken: " + part).c_str());
  };
  const backends::ModelMemory needs = device.memory(small_model());
  refused(needs.weights + 64 * needs.page + (kStates - 1) * needs.recurrent_state,
          "the model's weights and 64 pages of KV cache and 256 recurrent states", load);
  const auto model = load();
  LoraSpec lora{.rank = 4, .alpha = 8};
  std::fill(std::begin(lora.targets), std::end(lora.targets), true);
  const std::vector<float> values(4096, 0.5f);
  const auto value = [&](int, int, bool) { return values.data(); };
  refused(1000, "an adapter of rank 4", [&] { model->load_adapter(lora, value); });
  refused(1000, "training an adapter of rank 4", [&] { model->train_adapter(lora, 1, nullptr); });
  gpu->call = counted;
}

void test_failures(const std::shared_ptr<Gpu>& gpu) {
  OneThread pool;
  const backends::TensorReader read = reader();
  VulkanDevice device(pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); });
  const auto load = [&] { return device.load(small_model(), {64, kStates}, "", read, nullptr); };
  vk::DeviceFunctions& call = gpu->call;
  const vk::DeviceFunctions working = call;

  call.allocate_memory = [](auto...) { return vk::kOutOfDeviceMemory; };
  check(throws<backends::NoDeviceMemory>(load), "a model that does not fit is refused");
  call = working;
  test_small_heap(gpu, device, load);
  const auto model = load();

  std::vector<int32_t> tokens(1000, 3), blocks(64);
  for (int i = 0; i < 64; i++) blocks[size_t(i)] = i;
  const auto step = [&](int count) {
    backends::Run run{};
    run.tokens = tokens.data(), run.count = count, run.position = 0, run.blocks = blocks.data();
    run.logits = backends::WantedLogits::last, run.recurrent = 0;
    const int rows = model->step({&run, 1})->rows;
    model->start();
    return rows;
  };
  check(step(10) == 1, "a step is computed");
  call.allocate_memory = [](auto...) { return vk::kOutOfDeviceMemory; };
  check(throws<backends::NoDeviceMemory>([&] { step(1000); }), "a step that does not fit is refused");
  call = working;
  if (gpu->has_budget()) {
    const auto ask = gpu->instance_call;
    gpu->instance_call.get_memory_properties = give_small_heap, heap_bytes = 1 << 16;
    std::string said;
    try {
      step(1000);
    } catch (const NoDeviceMemory& error) {
      said = error.what();
    }
    gpu->instance_call = ask;
    check(said.starts_with("a step of 1000 tokens: ") && said.ends_with(", 65536 are free"),
          "a step that does not fit says so before");
  }
  check(step(10) == 1, "and one that does is computed after it");
  check(step(1000) == 1, "so is the large one, where there is memory again");

  call.queue_submit = [](auto...) { return vk::kDeviceLost; };
  check(throws<backends::DeviceLost>([&] { step(10); }), "the loss of a device is told");
  model->copy_page(0, 1);
  model->copy_recurrent_state(0, 1);
  call = working;
  check(throws<backends::DeviceLost>([&] { step(10); }), "a page that could not be copied is not read");
  check(open_gpu(0) != gpu, "a device that was lost is opened anew");
}

// A decode step like one before is one submission of commands that were recorded then.
void test_replay(const std::shared_ptr<Gpu>& gpu) {
  OneThread pool;
  VulkanDevice device(pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); });
  const auto model = device.load(small_model(28), {64, kStates}, "", reader(), nullptr);
  static int recorded, submitted;
  static vk::DeviceFunctions working;
  working = gpu->call;
  gpu->call.begin_commands = [](vk::CommandBuffer buffer, const vk::CommandBufferBeginInfo* info) {
    recorded++;
    return working.begin_commands(buffer, info);
  };
  gpu->call.queue_submit = [](vk::Queue queue, uint32_t count, const vk::SubmitInfo* info, vk::Fence fence) {
    submitted++;
    return working.queue_submit(queue, count, info, fence);
  };
  LoraSpec lora{.rank = 4, .alpha = 8};
  std::fill(std::begin(lora.targets), std::end(lora.targets), true);
  const std::vector<float> values(4096, 0.05f);
  const backends::AdapterRef adapter = model->load_adapter(lora, [&](int, int, bool) { return values.data(); });

  anneal::sampling::SamplingParams plain;
  plain.temperature = 0;
  const anneal::sampling::SamplingState draw(plain, 64);
  struct Step {
    int recorded, submitted;
    std::vector<int> tokens;
    bool sampled;
  };
  // Of sequences at these positions, whose pages begin at `page`.
  const auto step = [&](const std::vector<int>& positions, int token, bool adapted, int page = 0) {
    std::vector<backends::Run> runs(positions.size());
    std::vector<backends::RowRequest> requests(runs.size());
    std::vector<backends::RowResult> results(runs.size());
    std::vector<int32_t> tokens(runs.size(), token), blocks;
    for (int i = 0; i < 64; i++) blocks.push_back((i * 5 + page) % 64);
    for (size_t i = 0; i < runs.size(); i++) {
      runs[i].tokens = &tokens[i], runs[i].count = 1, runs[i].position = positions[i], runs[i].recurrent = int(i);
      runs[i].blocks = blocks.data() + 8 * (i % 8), runs[i].logits = backends::WantedLogits::last;
      if (adapted) runs[i].adapter = adapter;
      requests[i].row = int(i), requests[i].draw = &draw;
    }
    recorded = submitted = 0;
    const bool sampled = model->sample(*model->step(runs), requests, results);
    Step found{recorded, submitted, {}, sampled};
    for (const backends::RowResult& result : results) found.tokens.push_back(result.sampled.token);
    return found;
  };
  const Step first = step({0, 0}, 3, false), second = step({1, 1}, 5, false), third = step({0, 0}, 7, false, 3);
  check(first.recorded == 2 && first.submitted == 1, "a first step is recorded, and submitted as one");
  check(second.recorded == 0 && second.submitted == 1, "the next is that again, of other tokens and positions");
  check(third.recorded == 0 && third.submitted == 1, "and of other pages");
  check(first.sampled && second.sampled && third.sampled, "all are sampled");
  for (int position = 2; position < 64; position++) step({position, position}, 3, false);
  const Step longer = step({64, 64}, 3, false);
  check(longer.recorded == 0 && longer.sampled, "also of more pages");
  check(step({3, 3}, 7, true).recorded > 0, "one with an adapter is another");
  check(step({4, 4}, 7, true).recorded == 0, "which is recorded once as well");
  check(step({5}, 7, false).recorded > 0 && step({6}, 7, false).recorded == 0, "so is one of fewer sequences");
  check(step({0, 0}, 3, false).tokens == first.tokens, "what is done again has the same results");

  // What it costs the processor: without a GPU that computes.
  gpu->call.queue_submit = [](auto...) { return vk::kSuccess; };
  gpu->call.wait_fences = [](auto...) { return vk::kSuccess; };
  const auto microseconds = [&](auto&& f) {
    const auto began = std::chrono::steady_clock::now();
    constexpr int kTimes = 200;
    for (int i = 0; i < kTimes; i++) f(i);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kTimes;
  };
  const auto fresh = microseconds([&](int i) {
    // Every step has another number of sequences than the last 64.
    step(std::vector<int>(size_t(i % 100) + 100, 0), 3, false);
  });
  const auto again = microseconds([&](int) { step(std::vector<int>(150, 0), 3, false); });
  printf("a step of 28 layers: %.0f us of the processor to record, %.0f us again\n", fresh, again);
  gpu->call = working;
}

// Pages are read and written wherever they lie: also where 32 bits count neither their elements nor their granules.
// Page numbers are large here, and what takes the address of the layer's pages is given one as far before them.
void test_far_pages(const std::shared_ptr<Gpu>& gpu, KvCache cache) {
  constexpr int kCount = 64, kFirst = 16'000'000;
  OneThread pool;
  VulkanDevice device(pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); });
  ModelSpec m = small_model();
  m.format = TensorFormat::bf16, m.kv_cache = cache;
  static vk::DeviceFunctions working;
  static uint64_t bytes, far_before;
  static vk::Buffer pages;
  working = gpu->call;
  const auto page = uint64_t(page_bytes(type_of(m), cache, m.layers[0].attention));
  bytes = kCount * page, pages = 0;
  gpu->call.create_buffer = [](vk::Device on, const vk::BufferCreateInfo* info, const void* allocator, vk::Buffer* to) {
    const vk::Result result = working.create_buffer(on, info, allocator, to);
    if (info->size == bytes) pages = *to;
    return result;
  };
  gpu->call.get_buffer_address = [](vk::Device on, const vk::BufferDeviceAddressInfo* info) {
    const uint64_t address = working.get_buffer_address(on, info);
    return info->buffer == pages ? address - far_before : address;
  };
  anneal::sampling::SamplingParams plain;
  plain.temperature = 0;
  const anneal::sampling::SamplingState draw(plain, m.vocab);
  const auto compute = [&](int first) {
    far_before = uint64_t(first) * page;
    const auto model = device.load(m, {kCount, 1}, "", reader(), nullptr);
    std::vector<std::pair<int, float>> found;
    std::vector<int32_t> tokens(100), blocks;
    for (int i = 0; i < 100; i++) tokens[size_t(i)] = i % m.vocab;
    for (int i = 0; i < 2; i++) blocks.push_back(first + kCount - 1 - i);
    for (int position = 0; position < 104;) {
      backends::Run run{};
      run.count = position == 0 ? 100 : 1;
      run.tokens = tokens.data(), run.position = position, run.blocks = blocks.data(), run.recurrent = 0;
      run.logits = backends::WantedLogits::last;
      backends::RowRequest request{.row = 0, .draw = &draw};
      backends::RowResult result;
      model->sample(*model->step({&run, 1}), {&request, 1}, {&result, 1});
      found.push_back({result.sampled.token, result.sampled.logprob});
      position += run.count;
    }
    return found;
  };
  const auto near = compute(0);
  check(pages != 0, "pages are a buffer of their own");
  check(compute(kFirst) == near, "pages are found beyond 64 GiB");
  gpu->call = working;
}

// Rows that share a prompt, one of them from its very end; of a length that makes several stretches of the delta rule.
void test_training() {
  OneThread pool;
  VulkanDevice device(pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); });
  const auto model = device.load(small_model(), {64, kStates}, "", reader(), nullptr);
  LoraSpec lora{.rank = 4, .alpha = 8};
  std::fill(std::begin(lora.targets), std::end(lora.targets), true);
  const auto trainable = model->train_adapter(lora, 1, nullptr);
  const std::vector<int32_t> tokens(70, 3);
  const std::vector<backends::TrainRow> rows = {
      {.tokens = tokens},
      {.tokens = std::span(tokens).first(9), .prefix = 0, .prefix_length = 37},
      {.tokens = std::span(tokens).first(5), .prefix = 0, .prefix_length = 70}};
  for (const int64_t keep : {int64_t(0), int64_t(1)}) {
    const auto pass = model->forward(rows, trainable.get(), nullptr, {.keep_bytes = keep});
    const std::vector<float> ones(tokens.size(), 1.0f);
    const std::vector<std::span<const float>> by(rows.size(), ones);
    check(pass && pass->backward(by, {}), "rows that share a prompt are trained");
    const double norm = trainable->optim_step({.learning_rate = 1e-3f});
    check(std::isfinite(norm) && norm > 0, "their gradient is finite, and not zero");
  }
}

// What shaders compute with in double, and multiply-adds that are instructions.
struct MultiplyAdds {
  bool doubles = false;
  int fused = 0, decorated = 0;
};
MultiplyAdds multiply_adds(const std::vector<uint32_t>& words) {
  MultiplyAdds found;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const uint32_t op = words[at] & 0xffff;
    found.doubles |= (op == 17 && words[at + 1] == 10) || (op == 22 && words[at + 2] == 64);  // capability, type
    found.fused += op == 12 && words[at + 4] == 50;
    found.decorated += op == 71 && words[at + 2] == 42;
  }
  return found;
}

void test_words() {
  int replaced = 0;
  for (int s = 0; s < kShaders; s++) {
    const MultiplyAdds plain = multiply_adds(shader_words(Shader(s), {.fused = false})),
                       fused = multiply_adds(shader_words(Shader(s), {.fused = true}));
    check(!fused.doubles, "no doubles are asked of a device that multiplies and adds in one");
    check(fused.fused == plain.fused + plain.doubles, "it does so where others compute in double");
    check(fused.decorated >= fused.fused && fused.decorated <= plain.decorated, "nothing else is joined by a driver");
    replaced += plain.doubles;
  }
  check(replaced > kShaders / 2, "most shaders multiply and add");
}

void test_pipelines() {
  vk::PhysicalDeviceProperties device{};
  device.vendor = 7, device.device = 9, device.pipeline_cache_uuid[3] = 5;
  std::vector<uint8_t> data(40);
  data[0] = 32, data[4] = 1, data[8] = 7, data[12] = 9, data[19] = 5;
  check(are_of(data, device), "what a driver made of shaders is known again");
  for (const size_t at : {0, 4, 8, 12, 16, 31}) {
    std::vector<uint8_t> other = data;
    other[at] ^= 0x55;
    check(!are_of(other, device), "what another driver made is not taken for it");
  }
  check(!are_of(std::span(data).first(31), device), "nor what is not whole");
  const std::vector<uint8_t> made = pipelines_of(0);
  if (made.size() < 32) {
    printf("this driver keeps nothing of shaders\n");
    return;
  }
  check(made.size() >= 32 && Gpu(0, made).pipelines().size() >= made.size(), "it is kept, and given back");
  check(Gpu(0, data).pipelines().size() >= 32, "a GPU is opened beside what another made");
}

}  // namespace

int main() {
  for (int p = 0; p < kProbes; p++)
    check(probe_hash(computed_by_kernels(Probe(p)).data()) == expected_hash(Probe(p)),
          "the processor's kernels compute what devices are compared with");
  test_words();
  if (Gpu::list().empty()) {
    printf("no Vulkan device: its own part is not tried\n");
  } else {
    const auto gpu = open_gpu(0);
    printf("%s: fma %s, %s\n", gpu->facts().name.c_str(), gpu->arithmetic().fused ? "fused" : "in double precision",
           gpu->arithmetic().exact ? "the processor's bits" : "bits of its own");
    if (!gpu->arithmetic().fused) {
      const std::vector<float> found = run_probes(gpu);
      check(probe_hash(found.data() + int64_t(kMad) * kProbeCount) == expected_hash(kMad),
            "multiply-adds are rounded once, also where fma is not fused");
    }
    if (const MatrixShape& m = gpu->facts().matrices) {
      printf("cooperative matrices of %d x %d x %d\n", m.m, m.n, m.k);
      check(keeps_place(gpu), "products on cooperative matrices have the same bits wherever a row lies");
    } else {
      printf("no cooperative matrices: products on them are not tried\n");
    }
    test_pipelines();
    test_replay(gpu);
    for (const KvCache cache : {KvCache::exact, KvCache::int8}) test_far_pages(gpu, cache);
    test_training();
    test_failures(gpu);
  }
  puts(failures == 0 ? "ok" : "failed");
  return failures != 0;
}
