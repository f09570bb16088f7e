// Checks the decoder against numbers recorded from Hugging Face transformers and peft, and its promises about bits.
//
//   make -C native test-decoder REFERENCE=folder     every folder in it is a case: a model, adapter/, expected.*
#include <filesystem>

#include "decoder_fixture.h"

void check_bits(const std::string& folder);
void check_quantized_models();

namespace {

void check_reference(const std::string& folder, Isa isa, Pool& pool) {
  const std::string name = std::filesystem::path(folder).filename();
  const Arrays weights = read_weights(folder);
  Arrays expected;
  read_safetensors(folder + "/expected.safetensors", expected);
  const Json facts = read_json(folder + "/expected.json");
  const SavedAdapter saved(folder);
  // The fast family multiplies bfloat16 alone.
  Loaded m(folder, weights, TensorFormat::f32, is_fast(isa) ? best_isa() : isa, pool);
  Sequences rows;
  for (int r = 0; r < 3; r++) rows.push_back(expected.at("row" + std::to_string(r) + ".tokens").integers());

  const AdapterRef adapter = m.backend->load_adapter(saved.spec, saved.reader());
  for (int r = 0; r < 3; r++) {
    const std::string row = "row" + std::to_string(r);
    const auto compare = [&](const AdapterRef& version, const std::string& tensor) {
      const std::vector<float>& wanted = expected.at(row + "." + tensor).values;
      // Float32 itself is no finer for logits beyond 10.
      float largest = 10;
      for (float logit : wanted) largest = std::max(largest, std::abs(logit));
      below(max_difference(logits_of(m, pool, rows[r], version, 1000), wanted), 1e-5 * largest,
            name + " " + row + " " + tensor);
    };
    compare(nullptr, "logits");
    compare(adapter, "adapter_logits");
    const std::vector<int32_t> blocks = {0, 1, 2, 3, 4};
    std::vector<int32_t> tokens = rows[r];
    int done = 0;
    for (const Json& wanted : facts["greedy"].items[r].items) {
      Run run{tokens.data() + done, int(tokens.size()) - done, done, blocks.data(), nullptr, WantedLogits::last};
      run.recurrent = 0;
      const std::vector<float> logits = rows_of(m, *m.step({&run, 1}));
      done = int(tokens.size());
      tokens.push_back(int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      expect(tokens.back() == int(wanted.value), name + " greedy token");
    }
  }

  {  // adapter gradients and three steps
    auto reader = saved.reader();
    auto trainable = m.backend->train_adapter(saved.spec, 1, &reader);
    const Json& a = facts["adamw"];
    OptimizerSettings settings{float(a["lr"].value)};
    for (int step = 0; step < 3; step++) {
      below(std::abs(train_on(m, pool, rows, trainable.get()) - a["loss"].items[step].value), 1e-5 * (1 + step),
            name + " adapter loss");
      if (step == 0)
        for (size_t i = 0; i < trainable->tensors().size(); i++)
          below(relative_difference(read_part(*trainable, int(i), Trainable::Part::gradient),
                                    expected.at("lora_grad." + trainable->tensors()[i].name).values),
                1e-3, name + " gradient of " + trainable->tensors()[i].name);
      const double norm = a["grad_norm"].items[step].value;
      below(std::abs(trainable->optim_step(settings) - norm) / norm, 1e-4, name + " gradient norm");
    }
    for (size_t i = 0; i < trainable->tensors().size(); i++) {
      const std::string& tensor = trainable->tensors()[i].name;
      std::vector<float> moved = read_part(*trainable, int(i), Trainable::Part::value),
                         wanted = expected.at("lora_after3." + tensor).values;
      for (size_t j = 0; j < moved.size(); j++)
        moved[j] -= saved.tensors.at(tensor).values[j], wanted[j] -= saved.tensors.at(tensor).values[j];
      below(relative_difference(moved, wanted), 1e-3, name + " three steps of " + tensor);
    }
    below(std::abs(train_on(m, pool, rows, trainable.get()) - a["loss_after"].value), 1e-4,
          name + " loss after three steps");
  }
  if (trains_weights(m.spec)) {  // full gradients
    auto trainable = m.backend->train_weights();
    below(std::abs(train_on(m, pool, rows, trainable.get()) - facts["loss"].value), 1e-5, name + " loss");
    for (size_t i = 0; i < trainable->tensors().size(); i++)
      below(relative_difference(read_part(*trainable, int(i), Trainable::Part::gradient),
                                expected.at("grad." + trainable->tensors()[i].name).values),
            1e-3, name + " gradient of " + trainable->tensors()[i].name);
  }
  {  // bfloat16 against PyTorch's own error
    Loaded half(folder, weights, TensorFormat::bf16, isa, pool);
    double logits_error = 0, logprob_error = 0;
    int64_t logits_count = 0, logprob_count = 0;
    for (int r = 0; r < 3; r++) {
      const std::string row = "row" + std::to_string(r);
      const std::vector<float> logits = logits_of(half, pool, rows[r], nullptr, 1000),
                               &wanted = expected.at(row + ".logits").values;
      for (size_t i = 0; i < logits.size(); i++)
        logits_error += std::pow(double(logits[i]) - wanted[i], 2), logits_count++;
      const std::vector<float> logprobs = logprobs_from(*kernels(isa, DType::bf16), logits, rows[r], m.vocab());
      for (size_t i = 0; i < logprobs.size(); i++)
        logprob_error += std::pow(double(logprobs[i]) - expected.at(row + ".logprobs").values[i], 2), logprob_count++;
    }
    const double rms = std::sqrt(logits_error / logits_count), theirs = facts["bfloat16"]["logits_rms_error"].value;
    below(rms, 1.1 * theirs, name + " bfloat16 logits");
    const double logprob_rms = std::sqrt(logprob_error / logprob_count),
                 logprob_theirs = facts["bfloat16"]["logprobs_rms_error"].value;
    below(logprob_rms, 1.1 * logprob_theirs, name + " bfloat16 logprobs");
    std::printf("%-13s bfloat16 error over PyTorch's: logits %.2f, logprobs %.2f\n", name.c_str(), rms / theirs,
                logprob_rms / logprob_theirs);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("usage: %s FOLDER [NAME]\n", argv[0]);
    return 2;
  }
  TestPool one(1), two(2);
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (!entry.is_directory() || (argc > 2 && entry.path().filename() != argv[2])) continue;
    std::vector<Isa> isas = {Isa::portable, best_isa()};
    for (Isa isa : {Isa::amx_avx2, Isa::amx})  // of the fast family the first and the last
      if (kernels(isa, DType::bf16)) isas.push_back(isa);
    for (Isa isa : isas) check_reference(entry.path(), isa, isa == Isa::portable ? static_cast<Pool&>(one) : two);
    check_bits(entry.path());
  }
  if (argc == 2) check_quantized_models();
  return anneal::report_failures();
}
