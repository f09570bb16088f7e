// The promises about bits in training.
#include <cstdlib>
#include <new>

#include "bits_fixture.h"
#include "memory.h"

namespace {

// While it lives, the allocation of this thread that comes after so many others fails.
thread_local int allocations_left = -1;
struct FailingAllocations {
  explicit FailingAllocations(int after) { allocations_left = after; }
  ~FailingAllocations() { allocations_left = -1; }
};

}  // namespace

// Not inlined: GCC takes either side alone for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

struct TrainingCase : BitsCase {
  // Whether all weights are trained: an adapter, and all weights where these can be.
  std::vector<bool> ways() const {
    return !trains_weights(saved.model) ? std::vector<bool>{false} : std::vector<bool>{false, true};
  }

  std::vector<std::vector<float>> gradients(Isa isa, TestPool& pool, const Sequences& rows, bool full,
                                            PassOptions options = {}) {
    Loaded m = load(isa);
    auto reader = saved.reader();
    auto trainable = full ? m.backend->train_weights() : m.backend->train_adapter(saved.spec, 1, &reader);
    train_on(m, pool, rows, trainable.get(), nullptr, options);
    train_on(m, pool, {rows[0]}, trainable.get(), nullptr, options);  // a second one adds up
    return gradients_of(*trainable);
  }

  void check_gradients(const Sequences& rows) {
    for (bool full : ways()) {
      const auto wanted = gradients(best, one, rows, full);
      const std::string what = name + (full ? " full" : " adapter") + " gradients: ";
      expect(gradients(best, two, rows, full) == wanted, what + "two workers");
      expect(gradients(best, two, rows, full, {.keep_bytes = 1}) == wanted, what + "all layers computed again");
      expect(gradients(best, one, rows, full, {.keep_bytes = 1 << 20}) == wanted, what + "some layers computed again");
      check_room(rows, full, wanted);
      check_step_without_memory(rows, full);
      for (Isa isa : isas)
        if (kernels(isa, dtype()) && isa != best)
          expect(gradients(isa, two, rows, full) == wanted, what + isa_name(isa));
      const auto moved = after_steps(one, rows, full);
      expect(after_steps(two, rows, full) == moved, what + "two optimizer steps");
    }
  }

  // The limit of a pass is one: less than a pass needs is refused, and just that is enough.
  void check_room(const Sequences& rows, bool full, const std::vector<std::vector<float>>& wanted) {
    const std::string what = name + (full ? " full" : " adapter") + " room of a pass: ";
    int64_t needed = 0;
    try {
      gradients(best, two, rows, full, {.memory_budget = 1});
    } catch (const NoRoom& error) {
      needed = error.needed;
    }
    expect(needed > 0, what + "one byte");
    try {
      gradients(best, two, rows, full, {.memory_budget = needed - 1});
      expect(false, what + "a byte less than is needed");
    } catch (const NoRoom&) {}
    MemoryAccount outside;
    MemoryAccount::Scope scope(outside);
    Loaded m = load(best);
    auto reader = saved.reader();
    auto trainable = full ? m.backend->train_weights() : m.backend->train_adapter(saved.spec, 1, &reader);
    const int64_t before = outside.bytes;
    int64_t most = 0;
    train_on(m, two, rows, trainable.get(), nullptr, {.memory_budget = needed}, &most);
    expect(outside.bytes == before, what + "memory taken beside the pass");
    expect(most == needed, what + "holds " + std::to_string(most) + " of " + std::to_string(needed));
    // Held memory of another shape does not count on top.
    train_on(m, two, {rows[0]}, trainable.get(), nullptr, {.memory_budget = needed}, &most);
    expect(most <= needed, what + "after a pass of another shape");
    expect(gradients_of(*trainable) == wanted, what + "gradients");
  }

  // So is that of a pass whose few trained tokens see so much that it is attended to in parts at the same time.
  void check_room_of_parts() {
    MemoryAccount outside;
    MemoryAccount::Scope scope(outside);
    std::vector<uint8_t> trained(1100);
    trained[trained.size() - 2] = 1;
    const std::vector<float> by_logprob(trained.size(), 0.1f);
    const std::span<const float> gradients[] = {by_logprob};
    for (bool kept : {false, true}) {
      Loaded m = load(best);
      m.pool.pool = &two;
      auto reader = saved.reader();
      auto trainable = m.backend->train_adapter(saved.spec, 1, &reader);
      const std::vector<int32_t> tokens = some_tokens(int(trained.size()), m.vocab(), 51);
      const TrainRow rows[] = {{.tokens = tokens, .trained = trained}};
      const auto forward = [&](int64_t budget) {
        return m.backend->forward(rows, kept ? trainable.get() : nullptr, kept ? nullptr : trainable->version(),
                                  {.memory_budget = budget});
      };
      int64_t needed = 0;
      try {
        forward(1);
      } catch (const NoRoom& error) {
        needed = error.needed;
      }
      const int64_t before = outside.bytes;
      auto pass = forward(needed);
      if (kept) pass->backward(gradients, {});
      const std::string what = name + (kept ? ": training" : ": evaluating") + " the end of a long row: ";
      expect(outside.bytes == before, what + "memory taken beside the pass");
      expect(pass->bytes() == needed,
             what + "holds " + std::to_string(pass->bytes()) + " of " + std::to_string(needed));
    }
  }

  // An optimizer step that lacks memory, wherever that is, has changed nothing.
  void check_step_without_memory(const Sequences& rows, bool full) {
    const std::string what = name + (full ? " full" : " adapter") + " step without memory: ";
    Loaded m = load(best);
    auto reader = saved.reader();
    auto trainable = full ? m.backend->train_weights() : m.backend->train_adapter(saved.spec, 1, &reader);
    train_on(m, one, rows, trainable.get());
    const auto parts = [&] {
      std::vector<std::vector<float>> out;
      for (int i = 0; i < int(trainable->tensors().size()); i++)
        for (const auto part : {Trainable::Part::value, Trainable::Part::gradient, Trainable::Part::moment2})
          out.push_back(read_part(*trainable, i, part));
      return out;
    };
    const auto before = parts();
    const auto version = trainable->version();
    int failures = 0;
    for (bool done = false; !done; failures += !done) {
      try {
        FailingAllocations failing(failures);
        trainable->optim_step({1e-3f});
        done = true;
      } catch (const std::bad_alloc&) {
        if (trainable->steps() == 0 && trainable->version() == version && parts() == before) continue;
        expect(false, what + "allocation " + std::to_string(failures));
        return;
      }
    }
    expect(failures > 0 && trainable->steps() == 1 && parts() != before, what + "with all that it asks for");
  }

  std::vector<std::vector<float>> after_steps(TestPool& pool, const Sequences& rows, bool full) {
    Loaded m = load(best);
    auto reader = saved.reader();
    auto trainable = full ? m.backend->train_weights() : m.backend->train_adapter(saved.spec, 1, &reader);
    for (int step = 0; step < 2; step++) train_on(m, pool, rows, trainable.get()), trainable->optim_step({1e-3f});
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < trainable->tensors().size(); i++)
      out.push_back(read_part(*trainable, int(i), Trainable::Part::value));
    out.push_back(logits_of(m, pool, rows[0], trainable->version(), 1000));
    return out;
  }

  // Rows that continue a shared prefix, against the same rows written out.
  void check_prefixes() {
    Loaded m = load(best);
    const int vocab = m.vocab();
    auto reader = saved.reader();
    for (int prefix : {5, 64, 70, 128}) {
      const std::vector<int32_t> prompt = some_tokens(prefix, vocab, 77);
      // Row 0 is the prompt and a completion; 1 and 2 continue the prompt; 3 continues row 2 past the prompt.
      const Sequences tails = {some_tokens(9, vocab, 1), some_tokens(70, vocab, 2), some_tokens(30, vocab, 3),
                               some_tokens(12, vocab, 4)};
      Sequences whole(4, prompt);
      for (int r = 0; r < 3; r++) whole[r].insert(whole[r].end(), tails[r].begin(), tails[r].end());
      whole[3].insert(whole[3].end(), tails[2].begin(), tails[2].begin() + 11);
      whole[3].insert(whole[3].end(), tails[3].begin(), tails[3].end());
      // Only what follows the shared part is trained, so that both forms sum the same terms; the first token of it is
      // predicted by the prefix.
      TrainRow packed[4], unpacked[4];
      std::vector<std::vector<uint8_t>> mask, packed_mask;
      std::vector<std::vector<float>> d, packed_d;
      std::vector<std::span<const float>> ds, packed_ds;
      for (int r = 0; r < 4; r++) {
        const int start = int(whole[r].size()) - int(tails[r].size());
        mask.emplace_back(whole[r].size(), 0), d.emplace_back(whole[r].size(), 0.0f);
        for (int t = start; t + 1 < int(whole[r].size()); t++) mask[r][t] = 1, d[r][t] = 0.1f * float(t % 7 - 3);
        const int skip = r ? start : 0;
        packed_mask.emplace_back(mask[r].begin() + skip, mask[r].end()),
            packed_d.emplace_back(d[r].begin() + skip, d[r].end());
      }
      const int parents[] = {-1, 0, 0, 2}, lengths[] = {0, prefix, prefix, prefix + 11};
      for (int r = 0; r < 4; r++) {
        unpacked[r] = {.tokens = whole[r], .trained = mask[r]};
        packed[r] = {.tokens = r ? tails[r] : whole[r],
                     .trained = packed_mask[r],
                     .prefix = parents[r],
                     .prefix_length = lengths[r]};
        ds.push_back(d[r]), packed_ds.push_back(packed_d[r]);
      }
      for (bool full : ways()) {
        std::vector<std::vector<float>> gradients[2];
        std::vector<float> logprobs[2], entropies[2];
        for (int form = 0; form < 2; form++) {
          auto trainable = full ? m.backend->train_weights() : m.backend->train_adapter(saved.spec, 1, &reader);
          m.pool.pool = &two;
          auto pass = m.backend->forward(form ? packed : unpacked, trainable.get(), nullptr, {});
          for (int r = 0; r < 4; r++) {
            const int start = int(whole[r].size()) - int(tails[r].size());
            const auto l = pass->logprobs(r), e = pass->entropies(r);
            for (int t = start; t + 1 < int(whole[r].size()); t++)
              logprobs[form].push_back(l[form && r ? t - start : t]),
                  entropies[form].push_back(e[form && r ? t - start : t]);
          }
          pass->backward(form ? packed_ds : ds, {});
          gradients[form] = gradients_of(*trainable);
        }
        const std::string what =
            name + (full ? " full" : " adapter") + ", shared prefix of " + std::to_string(prefix) + ": ";
        expect(same_bits(logprobs[0], logprobs[1]), what + "logprobs");
        expect(same_bits(entropies[0], entropies[1]), what + "entropies");
        for (size_t i = 0; i < gradients[0].size(); i++)
          below(relative_difference(gradients[1][i], gradients[0][i]), type == TensorFormat::f32 ? 1e-5 : 2e-2,
                what + "gradient " + std::to_string(i));
      }
    }
  }

  // Of an adapter's pass the last layer is computed of the rows whose predictions are trained: with the bits of a pass
  // in which all are, and whose other gradients are zero.
  void check_untrained() {
    Loaded m = load(best);
    m.pool.pool = &two;
    auto reader = saved.reader();
    const int vocab = m.vocab(), lengths[] = {150, 200, 37, 64, 20}, count = 5;
    const std::function<bool(int)> trained[] = {[](int t) { return t >= 101 && t < 140; },
                                                [](int t) { return t % 50 < 3; }, [](int t) { return t == 17; },
                                                [](int t) { return t < 63; }, [](int) { return false; }};
    Sequences tokens;
    std::vector<std::vector<uint8_t>> masks;
    std::vector<std::vector<float>> d;
    for (int r = 0; r < count; r++) {
      tokens.push_back(some_tokens(lengths[r], vocab, 31 + r));
      masks.emplace_back(), d.emplace_back();
      for (int t = 0; t < lengths[r]; t++)
        masks[r].push_back(trained[r](t)), d[r].push_back(trained[r](t) ? 0.1f * float(t % 7 - 3) : 0.0f);
    }
    const std::vector<std::span<const float>> ds(d.begin(), d.end());
    TrainRow part[count], whole[count];
    for (int r = 0; r < count; r++)
      whole[r] = {.tokens = tokens[r]}, part[r] = {.tokens = tokens[r], .trained = masks[r]};
    const auto results = [&](const TrainPass& pass) {
      std::vector<float> out;
      for (int r = 0; r < count; r++)
        for (int t = 0; t < lengths[r]; t++)
          if (trained[r](t)) out.push_back(pass.logprobs(r)[t]), out.push_back(pass.entropies(r)[t]);
      return out;
    };
    const std::vector<float> wanted =
        results(*m.backend->forward(whole, nullptr, m.backend->load_adapter(saved.spec, reader), {}));
    const std::string what = name + ", rows of which part is trained: ";
    expect(
        same_bits(wanted, results(*m.backend->forward(part, nullptr, m.backend->load_adapter(saved.spec, reader), {}))),
        what + "evaluation");
    for (int64_t keep_bytes : {0, 1}) {
      std::vector<std::vector<float>> of[2];
      for (int form : {0, 1}) {
        auto trainable = m.backend->train_adapter(saved.spec, 1, &reader);
        const PassOptions options{.keep_bytes = keep_bytes, .entropy_gradient = true};
        auto pass = m.backend->forward(form ? part : whole, trainable.get(), nullptr, options);
        expect(same_bits(wanted, results(*pass)), what + "logprobs and entropies");
        // Twice, as callers may.
        for (int i = 0; i < 2; i++) expect(pass->backward(ds, ds), what + "backward");
        of[form] = gradients_of(*trainable);
      }
      expect(of[0] == of[1], what + "gradients");
    }
  }

  // An aborted pass counts nothing.
  void check_aborts(const Sequences& rows) {
    Loaded m = load(best);
    auto reader = saved.reader();
    auto trainable = m.backend->train_adapter(saved.spec, 1, &reader);
    train_on(m, one, rows, trainable.get());
    const auto before = gradients_of(*trainable);
    const Batched batch(rows, 0.1f);
    TestPool aborting(2);
    m.pool.pool = &aborting;
    aborting.abort_after = 4;
    expect(!m.backend->forward(batch.rows, trainable.get(), nullptr, {}), name + ": aborted forward");
    // Loops of a whole backward pass, on another trainable.
    aborting.abort_after = 0;
    auto spare = m.backend->train_adapter(saved.spec, 1, &reader);
    auto whole = m.backend->forward(batch.rows, spare.get(), nullptr, {});
    const int64_t start = aborting.runs;
    whole->backward(batch.by_logprob, {});
    const int64_t loops = aborting.runs - start;
    for (int64_t runs : {int64_t(2), loops / 2, loops * 3 / 4, loops}) {
      aborting.abort_after = 0;
      auto pass = m.backend->forward(batch.rows, trainable.get(), nullptr, {});
      aborting.abort_after = aborting.runs + runs;
      expect(!pass->backward(batch.by_logprob, {}), name + ": aborted backward");
    }
    aborting.abort_after = 0;
    expect(gradients_of(*trainable) == before, name + ": gradients after an aborted backward");
  }

  // Training that is closed in the middle of an optimizer step leaves the model with the weights of before, or those of
  // after.
  void check_aborted_steps(const Sequences& rows) {
    TestPool aborting(2);
    bool whole = false;
    std::vector<float> before, after;
    {
      Loaded m = load(best);
      before = logits_of(m, one, rows[0], nullptr, 1000);
      auto trainable = m.backend->train_weights();
      train_on(m, two, rows, trainable.get());
      trainable->optim_step({1e-2f});
      after = logits_of(m, one, rows[0], nullptr, 1000);
    }
    for (int64_t runs = 1; !whole; runs++) {
      Loaded closing(folder, weights, type, best, aborting, 4096);
      auto trainable = closing.backend->train_weights();
      train_on(closing, two, rows, trainable.get());
      aborting.abort_after = aborting.runs + runs;
      try {
        trainable->optim_step({1e-2f});
        whole = true;
      } catch (const Aborted&) {}
      aborting.abort_after = 0;
      trainable.reset();
      expect(same_bits(logits_of(closing, one, rows[0], nullptr, 1000), whole ? after : before),
             name + ": weights after a step that was aborted at loop " + std::to_string(runs));
    }
  }
};

}  // namespace

void check_gradients(const BitsCase& c, const Sequences& rows) { TrainingCase{c}.check_gradients(rows); }

void check_training(const BitsCase& c, const Sequences& rows) {
  TrainingCase of{c};
  of.check_gradients(rows);
  of.check_room_of_parts();
  of.check_prefixes();
  of.check_untrained();
}

void check_aborted_training(const BitsCase& c, const Sequences& rows) {
  TrainingCase of{c};
  of.check_aborts(rows);
  if (trains_weights(c.saved.model)) of.check_aborted_steps(rows);
}
