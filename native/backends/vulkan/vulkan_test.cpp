// The Vulkan backend on the first device there is: its arithmetic against the processor's kernels, what it records and
// submits, and where it finds pages. What it does when calls of the driver fail: faults_test.cpp.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "../cpu/kernels/exp_log.h"
#include "open_gpu.h"
#include "place_probe.h"
#include "probe.h"
#include "shader_words.h"
#include "small_model_fixture.h"
#include "staging.h"

using namespace anneal::vulkan;
namespace backends = anneal::backends;
namespace cpu = anneal::cpu;

namespace {

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

// Whatever a model has, a decode step that was made before is submitted once and waited for once, sampling included.
void test_submissions(const std::shared_ptr<Gpu>& gpu) {
  OneThread pool;
  const VulkanDevice device(
      pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); },
      [](auto&&...) { return std::make_unique<NoSampler>(); });
  static int submitted, waited;
  static vk::DeviceFunctions working;
  working = gpu->call;
  anneal::sampling::SamplingParams plain;
  plain.temperature = 0;
  const anneal::sampling::SamplingState draw(plain, 64);
  const auto once = [&](const ModelSpec& m, const char* arithmetic, int position, const char* what) {
    const auto model = device.load(m, {64, kStates}, arithmetic, reader(), nullptr);
    const std::vector<int32_t> tokens(size_t(position), 3);
    std::vector<int32_t> blocks;
    for (int i = 0; i < 64; i++) blocks.push_back(i);
    backends::Run run{};
    run.tokens = tokens.data(), run.count = position, run.blocks = blocks.data(), run.recurrent = 0;
    run.logits = backends::WantedLogits::none;
    check(model->step({&run, 1}), "a prompt is computed");
    run.count = 1, run.logits = backends::WantedLogits::last;
    gpu->call.queue_submit = [](vk::Queue queue, uint32_t count, const vk::SubmitInfo* info, vk::Fence fence) {
      submitted++;
      return working.queue_submit(queue, count, info, fence);
    };
    gpu->call.wait_fences = [](vk::Device of, uint32_t count, const vk::Fence* fences, uint32_t all, uint64_t most) {
      waited++;
      return working.wait_fences(of, count, fences, all, most);
    };
    bool sampled = true;
    for (int i = 0; i < 2; i++) {
      run.position = position + i;
      const backends::RowRequest request{.row = 0, .draw = &draw};
      backends::RowResult result;
      submitted = waited = 0;
      sampled &= model->sample(*model->step({&run, 1}), {&request, 1}, {&result, 1});
    }
    check(sampled && submitted == 1 && waited == 1, what);
    gpu->call = working;
  };
  ModelSpec m = small_model();
  once(m, "", 1100, "one submission and one wait over several segments of attention");
  m.format = TensorFormat::bf16;
  if (gpu->facts().matrices) once(m, "fast", 5, "one submission and one wait on cooperative matrices");
  for (const char* name : {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"})
    m.quantized["model.layers.0." + std::string(name) + ".weight"] = TensorFormat::q8_0;
  once(m, "", 5, "one submission and one wait with quantised weights");
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
    if (info->size == bytes)
      pages = *to;
    else if (*to == pages)
      pages = 0;  // those of a model before, whose handle another buffer has now
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

// What pages hold where no token has written, also beside heads that do not fill their last granule, is not looked at.
void test_unwritten_pages(const std::shared_ptr<Gpu>& gpu) {
  OneThread pool;
  VulkanDevice device(pool, 0, [](const ModelSpec&, int) { return std::make_unique<NoSampler>(); });
  ModelSpec m = small_model();
  m.format = TensorFormat::bf16, m.kv_cache = KvCache::exact;
  m.layers[0].attention.heads = 8, m.layers[0].attention.head_dim = 4;
  const auto model = device.load(m, {3, 1}, "", reader(), nullptr);
  static vk::DeviceFunctions working;
  static uint32_t filled_with;
  working = gpu->call;
  gpu->call.copy_buffer = [](vk::CommandBuffer commands, vk::Buffer, vk::Buffer to, uint32_t,
                             const vk::BufferCopy* of) {
    working.fill_buffer(commands, to, of->destination, of->size, filled_with);
  };
  anneal::sampling::SamplingParams plain;
  plain.temperature = 0;
  const anneal::sampling::SamplingState draw(plain, m.vocab);
  const auto compute = [&](uint32_t with) {
    filled_with = with;
    for (int page = 0; page < 2; page++) model->copy_page(2, page);
    std::vector<std::pair<int, float>> found;
    std::vector<int32_t> tokens(70), blocks = {1, 0};
    for (int i = 0; i < 70; i++) tokens[size_t(i)] = i % m.vocab;
    for (const auto& [position, count] : {std::pair{0, 70}, {70, 1}, {71, 3}}) {
      backends::Run run{};
      run.tokens = tokens.data(), run.count = count, run.position = position, run.blocks = blocks.data();
      run.recurrent = 0, run.logits = backends::WantedLogits::last;
      backends::RowRequest request{.row = 0, .draw = &draw};
      backends::RowResult result;
      check(model->sample(*model->step({&run, 1}), {&request, 1}, {&result, 1}), "logits are numbers");
      found.push_back({result.sampled.token, result.sampled.logprob});
    }
    return found;
  };
  const auto wanted = compute(0);
  check(compute(~0u) == wanted, "pages may hold what is no number where nobody has written");
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

// More than the ring holds, at any place, by the ring and straight.
void test_staging(const std::shared_ptr<Gpu>& gpu) {
  constexpr int64_t size = 3 * Staging::kBytes + 12;
  std::vector<uint32_t> numbers(size_t(size / 4)), found(numbers.size());
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = uint32_t(i) * 2654435761u;
  const bool was = gpu->writes_straight;
  for (const bool straight : {false, true}) {
    gpu->writes_straight = straight;
    Staging staging(gpu);
    Memory memory(gpu, size + 256);
    check(straight || !memory.mapped<char>(), "the host sees a GPU's memory only where it writes it straight");
    staging.zero(memory);
    int64_t at = 0;
    for (const int64_t bytes : {int64_t(4), Staging::kBytes + 4, int64_t(100), 2 * Staging::kBytes - 96}) {
      staging.send(memory, 256 + at, numbers.data() + at / 4, bytes);
      at += bytes;
    }
    staging.finish();
    check(at == size, "all of it was sent");
    staging.read(memory, 256, found.data(), size);
    check(found == numbers, "what goes through the ring arrives whole and in its place");
    staging.read(memory, 0, found.data(), 256);
    check(std::all_of(found.begin(), found.begin() + 64, [](uint32_t x) { return x == 0; }), "and nowhere else");
  }
  gpu->writes_straight = was;
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
    test_staging(gpu);
    test_pipelines();
    test_replay(gpu);
    test_submissions(gpu);
    for (const KvCache cache : {KvCache::exact, KvCache::int8}) test_far_pages(gpu, cache);
    test_unwritten_pages(gpu);
    test_training();
  }
  puts(failures == 0 ? "ok" : "failed");
  return failures != 0;
}
