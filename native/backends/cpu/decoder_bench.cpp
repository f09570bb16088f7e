// Measures the decoder at a shape: make -C native/decoder bench SHAPE="tiny|smol|qwen [workers]"
// With one worker times are processor time, which a busy machine disturbs less.
#include <ctime>

#include "decoder_fixture.h"

namespace {

bool processor_time = false;
double seconds() {
  timespec t{};
  clock_gettime(processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

DecoderConfig shape(const std::string& name) {
  DecoderConfig c{};
  c.rms_eps = 1e-6f, c.tied_head = true, c.dtype = DType::bf16;
  if (name == "tiny") {
    c.hidden = 192, c.intermediate = 576, c.layers = 6, c.heads = 6, c.kv_heads = 2, c.head_dim = 32, c.vocab = 1024, c.max_positions = 2048;
    c.qk_norm = true;
  } else if (name == "smol") {
    c.hidden = 576, c.intermediate = 1536, c.layers = 30, c.heads = 9, c.kv_heads = 3, c.head_dim = 64, c.vocab = 49152, c.max_positions = 8192;
  } else {
    c.hidden = 1024, c.intermediate = 3072, c.layers = 28, c.heads = 16, c.kv_heads = 8, c.head_dim = 128, c.vocab = 151936, c.max_positions = 40960;
    c.qk_norm = true;
  }
  return c;
}

uint64_t state = 1;
float random_value() {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return float(int32_t(state >> 32)) * (1.0f / 2147483648.0f);
}

template <class F> double median_time(int repeats, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < repeats; i++) {
    const double from = seconds();
    f();
    times.push_back(seconds() - from);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "tiny";
  const DecoderConfig c = shape(name);
  TestPool pool(argc > 2 ? std::atoi(argv[2]) : 2);
  processor_time = pool.workers() == 1;
  const TensorReader reader = [&](const std::string& tensor, int64_t, int64_t rows, float* dst) {
    const bool vector = tensor.ends_with("norm.weight");
    const int64_t cols = tensor.find("q_norm") != std::string::npos || tensor.find("k_norm") != std::string::npos ? c.head_dim
                         : tensor.ends_with("o_proj.weight")                                                       ? c.heads * c.head_dim
                         : tensor.ends_with("down_proj.weight")                                                    ? c.intermediate
                                                                                                                   : c.hidden;
    for (int64_t i = 0; i < rows * cols; i++) dst[i] = vector ? 1 : random_value() * 1.7f / std::sqrt(float(cols));
  };
  const int pages = name == "tiny" ? 2048 : 512;
  double from = seconds();
  auto d = Decoder::create(c, *kernels(best_isa(), DType::bf16), pool, pages, reader, nullptr);
  std::printf("%s, %s, %d workers: loaded in %.2f s\n", name.c_str(), isa_name(best_isa()), pool.workers(), seconds() - from);

  const int ld = (c.vocab + 15) / 16 * 16;
  std::vector<float> logits(size_t(64) * ld);
  for (int batch : {1, 4, 8, 16, 64}) {
    for (int context : {16, 512}) {
      std::vector<int32_t> tokens(batch);
      std::vector<std::vector<int32_t>> blocks(batch);
      std::vector<StepRun> runs;
      int page = 0;
      for (int b = 0; b < batch; b++) {
        tokens[b] = int32_t((b * 37) % c.vocab);
        for (int i = 0; i <= (context + 8) / kPage; i++) blocks[b].push_back(page++ % pages);
        runs.push_back({&tokens[b], 1, context, blocks[b].data(), nullptr, 1});
      }
      const double t = median_time(30, [&] { d->step(pool, runs.data(), batch, {logits.data(), ld}); });
      std::printf("decode %2d at %3d: %.3f ms, %.0f tokens/s\n", batch, context, t * 1e3, batch / t);
    }
  }
  std::vector<int32_t> prompt(512), table(8);
  for (size_t i = 0; i < prompt.size(); i++) prompt[i] = int32_t((i * 7919 + 13) % c.vocab);
  for (int i = 0; i < 8; i++) table[i] = i;
  const StepRun prefill{prompt.data(), 512, 0, table.data(), nullptr, 1};
  const double t = median_time(7, [&] { d->step(pool, &prefill, 1, {logits.data(), ld}); });
  std::printf("prefill 512: %.1f ms, %.0f tokens/s\n", t * 1e3, 512 / t);

  auto train = [&](const char* what, Trainable* trainable, int rows, int length) {
    Sequences list(rows, std::vector<int32_t>(length));
    for (auto& r : list)
      for (auto& x : r) x = int32_t(std::abs(random_value()) * (c.vocab - 1));
    std::vector<TrainRow> train_rows;
    std::vector<std::vector<float>> gradients;
    std::vector<const float*> pointers;
    for (auto& r : list) train_rows.push_back({r.data(), length}), gradients.emplace_back(length, -1.0f / (rows * length)).back() = 0;
    for (auto& g : gradients) pointers.push_back(g.data());
    double forward = 0, backward = 0, step = 0;
    for (int i = 0; i < 3; i++) {
      const double t0 = seconds();
      auto pass = d->forward(pool, train_rows.data(), rows, nullptr, nullptr, trainable, nullptr, {});
      const double t1 = seconds();
      pass->backward(pointers.data(), nullptr);
      const double t2 = seconds();
      trainable->optim_step({1e-4f});
      forward = t1 - t0, backward = t2 - t1, step = seconds() - t2;
    }
    std::printf("%s %d x %d: forward %.0f ms, backward %.0f ms, step %.0f ms, %.0f tokens/s\n", what, rows, length, forward * 1e3, backward * 1e3, step * 1e3,
                rows * length / (forward + backward + step));
  };
  LoraSpec spec{16, 32};
  for (bool& target : spec.targets) target = true;
  {
    auto adapter = d->train_adapter(spec, 1, nullptr);
    train("LoRA", adapter.get(), 4, 256);
  }
  if (name != "qwen") {
    auto all = d->train_weights();
    train("full", all.get(), name == "tiny" ? 64 : 4, 256);
  }
}
