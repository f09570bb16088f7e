// The promises about bits: a token's logits and log-probability do not depend on how the work was cut, batched, spread
// over workers or compiled; gradients are a function of the rows alone.
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <new>

#include "decoder_fixture.h"
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
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

std::vector<int32_t> some_tokens(int count, int vocab, uint64_t seed) {
  std::vector<int32_t> out(count);
  for (int i = 0; i < count; i++) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    out[i] = int32_t((seed >> 33) % uint64_t(vocab));
  }
  return out;
}

struct Case {
  std::string name, folder;
  Arrays weights;
  SavedAdapter saved;
  TensorFormat type;
  TestPool& one;
  TestPool& two;
  KvCache kv_cache = KvCache::exact;
  // The family's, and the best of them.
  std::span<const Isa> isas = kIsas;
  Isa best = best_isa();

  DType dtype() const { return type == TensorFormat::f32 ? DType::f32 : DType::bf16; }
  Loaded load(Isa isa) { return Loaded(folder, weights, type, isa, one, 4096, kv_cache); }

  // An adapter on all projections with random values.
  static AdapterRef random_adapter(Loaded& m, int rank, uint64_t seed) {
    LoraSpec spec{rank, float(2 * rank)};
    for (bool& t : spec.targets) t = true;
    std::deque<std::vector<float>> kept;
    return m.backend->load_adapter(spec, [&](int layer, int p, bool b) {
      const ProjectionShape shape = projection_shape(m.spec, layer, p);
      const int count = rank * (b ? shape.outputs : shape.inputs);
      const std::vector<int32_t> values = some_tokens(count, 2001, seed + layer * 100 + p * 2 + b);
      std::vector<float>& dst = kept.emplace_back(count);
      for (int i = 0; i < count; i++) dst[i] = float(values[i] - 1000) * 1e-3f * 0.2f;
      return dst.data();
    });
  }

  // One sequence, cut in every way; instruction sets; workers.
  void check_cuts(const std::vector<int32_t>& tokens, bool all_isas) {
    Loaded reference = load(best);
    std::vector<AdapterRef> adapters = {nullptr, reference.backend->load_adapter(saved.spec, saved.reader())};
    for (size_t a = 0; a < adapters.size(); a++) {
      const std::vector<float> wanted = logits_of(reference, one, tokens, adapters[a], 100000);
      const std::string what = name + (a ? " with adapter" : "");
      for (int chunk : {1, 3, 7, 33, 64, 95})
        for (TestPool* pool : {&one, &two})
          expect(same_bits(logits_of(reference, *pool, tokens, adapters[a], chunk), wanted),
                 what + ": prefill in chunks of " + std::to_string(chunk) + ", " + std::to_string(pool->workers()) +
                     " workers");
      for (Isa isa : isas) {
        if (!all_isas || !kernels(isa, dtype()) || isa == best) continue;
        Loaded other = load(isa);
        const AdapterRef adapter = a ? other.backend->load_adapter(saved.spec, saved.reader()) : nullptr;
        expect(same_bits(logits_of(other, two, tokens, adapter, 50), wanted), what + " on " + isa_name(isa));
      }
      // The same numbers in training's forward pass.
      const TrainRow row{.tokens = tokens};
      const auto predictions = [&](const TrainPass& pass) {
        return std::vector<float>(pass.logprobs(0).begin(), pass.logprobs(0).end() - 1);
      };
      const std::vector<float> logprobs = logprobs_from(*kernels(best, dtype()), wanted, tokens, reference.vocab());
      for (TestPool* pool : {&one, &two}) {
        reference.pool.pool = pool;
        auto pass = reference.backend->forward({&row, 1}, nullptr, adapters[a], {});
        expect(same_bits(predictions(*pass), logprobs), what + ": logprobs of evaluation");
      }
      if (a) {
        auto reader = saved.reader();
        auto trainable = reference.backend->train_adapter(saved.spec, 1, &reader);
        auto pass = reference.backend->forward({&row, 1}, trainable.get(), nullptr, {});
        expect(same_bits(predictions(*pass), logprobs), what + ": logprobs of training");
        expect(same_bits(logits_of(reference, two, tokens, trainable->version(), 20), wanted),
               what + ": logits of the trainable's version");
      }
    }
  }

  // Decode steps of 16 sequences, three adapters and none among them, against each alone.
  void check_batches() {
    Loaded m = load(best);
    const AdapterRef adapters[] = {nullptr, m.backend->load_adapter(saved.spec, saved.reader()),
                                   random_adapter(m, 3, 5), random_adapter(m, 20, 6)};
    const int vocab = m.vocab(), count = 16;
    Sequences sequences;
    std::vector<std::vector<float>> wanted;
    for (int s = 0; s < count; s++) {
      sequences.push_back(some_tokens(3 + s * 6, vocab, s));
      wanted.push_back(logits_of(m, one, sequences[s], adapters[s % 4], 100000));
    }
    for (int batch : {1, 3, 16}) {
      std::vector<std::vector<int32_t>> tables(count);
      for (int s = 0; s < count; s++) tables[s] = {4 * s + 1, 4 * s, 4 * s + 3};
      for (int from = 0; from < count; from += batch) {
        // The last token of each after a prefill of the rest, all in one step; and a prefill beside it.
        std::vector<Run> prefill, decode;
        const int to = std::min(count, from + batch);
        for (int s = from; s < to; s++) {
          const int n = int(sequences[s].size());
          prefill.push_back({sequences[s].data(), n - 1, 0, tables[s].data(), adapters[s % 4], WantedLogits::none});
          decode.push_back(
              {sequences[s].data() + n - 1, 1, n - 1, tables[s].data(), adapters[s % 4], WantedLogits::last});
          prefill.back().recurrent = decode.back().recurrent = s;
        }
        const std::vector<int32_t> spare = {100, 101};
        decode.push_back({sequences[15].data(), 70, 0, spare.data(), adapters[2], WantedLogits::none});
        decode.back().recurrent = count;
        m.pool.pool = batch == 3 ? &one : &two;
        m.step(prefill);
        const std::vector<float> out = rows_of(m, *m.step(decode));
        for (int s = from; s < to; s++) {
          const std::vector<float> got(out.begin() + size_t(s - from) * vocab,
                                       out.begin() + size_t(s - from + 1) * vocab);
          expect(same_bits(got, {wanted[s].end() - vocab, wanted[s].end()}),
                 name + ": decode of sequence " + std::to_string(s) + " in a batch of " + std::to_string(batch));
        }
      }
    }
    // Whatever a page held before: here infinities and what comes of them.
    LoraSpec wild{1, 1};
    int layer = 0;
    while (!has_projection(m.spec.layers[layer], kV)) layer++;
    const int values = module_of(m.spec.layers[layer], kV);
    wild.targets[values] = true;
    const std::vector<float> huge(m.spec.hidden + module_shape(m.spec, layer, values).outputs, 1e38f);
    const AdapterRef infinite = m.backend->load_adapter(wild, [&](int, int, bool) { return huge.data(); });
    logits_of(m, two, sequences[15], infinite, 1000);
    expect(same_bits(logits_of(m, two, sequences[8], nullptr, 9), wanted[8]), name + ": pages that held infinities");
    // A copied page, with a copied state, continues like its original.
    std::vector<int32_t> table = {40, 41}, copy = {40, 43};
    Run prefill{sequences[12].data(), 70, 0, table.data(), nullptr, WantedLogits::none};
    prefill.recurrent = 1;
    m.step({&prefill, 1});
    m.copy_block(41, 43);
    m.backend->copy_recurrent_state(1, 2);
    Run original{sequences[12].data() + 70, 1, 70, table.data(), nullptr, WantedLogits::last},
        copied{sequences[12].data() + 70, 1, 70, copy.data(), nullptr, WantedLogits::last};
    original.recurrent = 1, copied.recurrent = 2;
    const std::vector<float> a = rows_of(m, *m.step({&original, 1})), b = rows_of(m, *m.step({&copied, 1}));
    expect(same_bits(a, b), name + ": copied page");
    check_read_rows(m, sequences, adapters, wanted);
  }

  // Prompts of one step of which all logits are wanted, the last, the last hidden states, or nothing: rows that nobody
  // reads are left out of the last layer, and change nothing in the others or in what comes after.
  void check_read_rows(Loaded& m, const Sequences& sequences, std::span<const AdapterRef> adapters,
                       const std::vector<std::vector<float>>& wanted) {
    const int vocab = m.vocab(), hidden = m.spec.hidden, first = 6, count = 8;
    std::vector<int32_t> tables[count];
    std::vector<float> states[2][count];
    std::vector<Run> runs;
    for (int i = 0; i < count; i++) {
      const int s = first + i, n = int(sequences[s].size());
      tables[i] = {2 * i, 2 * i + 1};
      runs.push_back({sequences[s].data(), n - 1, 0, tables[i].data(), adapters[s % 4], WantedLogits::all});
      runs[i].recurrent = i, runs[i].state_count = n - 1;
      states[0][i].resize(size_t(n - 1) * hidden), runs[i].states = states[0][i].data();
    }
    m.step(runs);
    constexpr WantedLogits kinds[] = {WantedLogits::last, WantedLogits::none, WantedLogits::all,
                                      WantedLogits::none, WantedLogits::last, WantedLogits::none};
    for (int without : {0, 1}) {  // in the second turn nobody reads anything
      for (int i = 0; i < count; i++) {
        runs[i].logits = without ? WantedLogits::none : kinds[i % 6];
        runs[i].state_count = without ? 0 : i % 3 == 0 ? 4 : 0;
        states[1][i].assign(size_t(runs[i].state_count) * hidden, 0), runs[i].states = states[1][i].data();
      }
      const Logits* logits = m.step(runs);
      expect(logits && (!without || logits->rows == 0), name + ": a step that nothing is read of");
      const std::vector<float> out = without ? std::vector<float>() : rows_of(m, *logits);
      size_t at = 0;
      for (int i = 0; i < count; i++) {
        const std::string what = name + ": prompt " + std::to_string(i) + " beside ones that nobody reads";
        const int rows = runs[i].logit_rows();
        const std::vector<float>& all = wanted[first + i];
        const std::vector<float> got(out.begin() + at, out.begin() + at + size_t(rows) * vocab);
        at += size_t(rows) * vocab;
        expect(same_bits(got, {all.end() - int64_t(rows + 1) * vocab, all.end() - vocab}), what + ": logits");
        expect(same_bits(states[1][i], {states[0][i].end() - int64_t(states[1][i].size()), states[0][i].end()}),
               what + ": states");
      }
      expect(at == out.size(), name + ": rows of logits");
      std::vector<Run> next;
      for (int i = 0; i < count; i++) {
        const int s = first + i, n = int(sequences[s].size());
        next.push_back({sequences[s].data() + n - 1, 1, n - 1, tables[i].data(), adapters[s % 4], WantedLogits::last});
        next.back().recurrent = i;
      }
      const std::vector<float> behind = rows_of(m, *m.step(next));
      for (int i = 0; i < count; i++)
        expect(same_bits({behind.begin() + int64_t(i) * vocab, behind.begin() + int64_t(i + 1) * vocab},
                         {wanted[first + i].end() - vocab, wanted[first + i].end()}),
               name + ": decode behind prompt " + std::to_string(i));
    }
  }

  // Sequences that begin alike, some longer than others, in one step: on pages of their own, and on pages in common.
  void check_shared_pages(const std::vector<int>& common, const std::vector<int>& own) {
    Loaded m = load(best);
    const int vocab = m.vocab(), count = int(common.size());
    const std::vector<int32_t> beginning = some_tokens(*std::max_element(common.begin(), common.end()), vocab, 77);
    int pages = 0;
    std::vector<int32_t> shared;
    for (size_t p = 0; p < beginning.size(); p += kPage) shared.push_back(pages++);
    Sequences sequences;
    std::vector<std::vector<int32_t>> alone, together;
    std::vector<Run> fill, apart, joined;
    for (int s = 0; s < count; s++) {
      sequences.push_back({beginning.begin(), beginning.begin() + common[s]});
      const std::vector<int32_t> rest = some_tokens(own[s], vocab, s);
      sequences[s].insert(sequences[s].end(), rest.begin(), rest.end());
      std::vector<int32_t> table;
      for (size_t p = 0; p < sequences[s].size(); p += kPage) table.push_back(pages++);
      alone.push_back(table);
      std::copy_n(shared.begin(), common[s] / kPage, table.begin());
      together.push_back(table);
    }
    const Run first{beginning.data(), int(beginning.size()), 0, shared.data(), nullptr, WantedLogits::none};
    m.pool.pool = &two;
    m.step({&first, 1});
    for (int s = 0; s < count; s++) {
      const int n = int(sequences[s].size());
      fill.push_back({sequences[s].data(), n - 1, 0, alone[s].data(), nullptr, WantedLogits::none});
      apart.push_back({sequences[s].data() + n - 1, 1, n - 1, alone[s].data(), nullptr, WantedLogits::last});
      joined.push_back({sequences[s].data() + n - 1, 1, n - 1, together[s].data(), nullptr, WantedLogits::last});
    }
    m.step(fill);
    std::vector<float> wanted;
    m.pool.pool = &one;
    for (const Run& run : apart) {
      const std::vector<float> row = rows_of(m, *m.step({&run, 1}));
      wanted.insert(wanted.end(), row.begin(), row.end());
    }
    for (TestPool* pool : {&one, &two}) {
      m.pool.pool = pool;
      for (const Run& run : apart) m.step({&run, 1});
      expect(same_bits(rows_of(m, *m.step(apart)), wanted), name + ": long sequences beside each other");
      expect(same_bits(rows_of(m, *m.step(joined)), wanted), name + ": pages in common");
      std::reverse(joined.begin(), joined.end());
      const std::vector<float> back = rows_of(m, *m.step(joined));
      std::reverse(joined.begin(), joined.end());
      bool same = true;
      for (int s = 0; s < count; s++)
        same &= std::equal(back.begin() + size_t(s) * vocab, back.begin() + size_t(s + 1) * vocab,
                           wanted.begin() + size_t(count - 1 - s) * vocab);
      expect(same, name + ": pages in common, in another order");
    }
    m.pool.pool = &two;
    const std::vector<float> last = rows_of(m, *m.step({&apart[0], 1}));
    expect(same_bits(last, {wanted.begin(), wanted.begin() + vocab}), name + ": one sequence alone");
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
    for (bool full : {false, true}) {
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
      for (bool full : {false, true}) {
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

  // Rows or columns that are not kept are dropped, or made zeros.
  static void narrow(Array& a, int dimension, bool drop, const std::function<bool(int64_t)>& kept) {
    Array out{a.shape, {}};
    const int64_t cols = a.shape.size() == 2 ? a.shape[1] : 1;
    for (int64_t i = 0; i < int64_t(a.values.size()); i++) {
      const bool beyond = !kept(dimension == 0 ? i / cols : i % cols);
      if (!beyond || !drop) out.values.push_back(beyond ? 0 : a.values[i]);
    }
    if (drop) out.shape[dimension] = 0;
    for (int64_t i = 0; drop && i < a.shape[dimension]; i++) out.shape[dimension] += kept(i);
    a = std::move(out);
  }
  static void narrow(Array& a, int dimension, int64_t width, bool drop) {
    narrow(a, dimension, drop, [&](int64_t i) { return i < width; });
  }

  // Layers of different head widths, heads to a group, key-value heads and feed-forwards, against the same model with
  // zeros in what the narrower ones lack.
  void check_layer_shapes(const std::vector<int32_t>& tokens) {
    ModelSpec wide = read_spec(folder, type);
    const AttentionSpec whole = wide.layers[0].attention;
    for (LayerSpec& l : wide.layers) l.attention.scale = 1 / std::sqrt(double(whole.head_dim));
    wide.layers[0].attention.rope.type = RopeType::none;
    ModelSpec narrower = wide;
    narrower.layers[0].attention.head_dim /= 2;
    narrower.layers[1].attention.heads = whole.kv_heads;
    narrower.layers[2].attention.heads = whole.group(), narrower.layers[2].attention.kv_heads = 1;
    for (int l = 0; l < 3; l++) narrower.layers[l].feed_forward.intermediate -= 7 * l;
    const auto kept_channel = [&](int layer, int64_t channel, bool of_queries) {
      const AttentionSpec& a = narrower.layers[layer].attention;
      const int64_t head = channel / whole.head_dim, group = of_queries ? whole.group() : 1;
      return channel % whole.head_dim < a.head_dim && head / group < a.kv_heads &&
             (!of_queries || head % group < a.group());
    };
    Arrays dropped = weights, zeroed = weights;
    for (bool drop : {false, true})
      for (auto& [tensor, a] : drop ? dropped : zeroed)
        for (int l = 0; l < 3; l++) {
          if (tensor.find("layers." + std::to_string(l) + ".") == std::string::npos) continue;
          auto is = [&](const char* name) { return tensor.find(name) != std::string::npos; };
          const bool q = is("q_proj"), o = is("o_proj.w"), kv = is("k_proj") || is("v_proj");
          if (q || o || kv) narrow(a, o ? 1 : 0, drop, [&](int64_t i) { return kept_channel(l, i, !kv); });
          const int intermediate = narrower.layers[l].feed_forward.intermediate;
          if (is("gate_proj") || is("up_proj")) narrow(a, 0, intermediate, drop);
          if (is("down_proj.w")) narrow(a, 1, intermediate, drop);
        }

    struct Numbers {
      std::vector<float> logits, decoded, logprobs;
      std::map<std::string, Array> gradients;
    };
    auto numbers = [&](const ModelSpec& c, const Arrays& w, PassOptions options) {
      Loaded m(c, w, best, one);
      Numbers out;
      out.logits = logits_of(m, two, tokens, nullptr, 1000);
      out.decoded = logits_of(m, one, tokens, nullptr, 1);
      auto trainable = m.backend->train_weights();
      train_on(m, two, {tokens}, trainable.get(), &out.logprobs, options);
      for (size_t i = 0; i < trainable->tensors().size(); i++) {
        const TensorShape& t = trainable->tensors()[i];
        out.gradients[t.name] = {t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows},
                                 read_part(*trainable, int(i), Trainable::Part::gradient)};
      }
      return out;
    };
    const std::string what = name + " layers of different shapes: ";
    const Numbers wanted = numbers(wide, zeroed, {}), found = numbers(narrower, dropped, {}),
                  recomputed = numbers(narrower, dropped, {.keep_bytes = 1});
    expect(same_bits(found.logits, wanted.logits), what + "logits");
    expect(same_bits(found.decoded, found.logits), what + "decode and prefill");
    expect(same_bits(found.logprobs, wanted.logprobs), what + "logprobs");
    for (const auto& [tensor, gradient] : found.gradients) {
      expect(same_bits(recomputed.gradients.at(tensor).values, gradient.values), what + tensor + " recomputed");
      Array whole_gradient = wanted.gradients.at(tensor);
      for (int l = 0; l < 3; l++)
        if (tensor.find("layers." + std::to_string(l) + ".self_attn.k_proj") != std::string::npos)
          narrow(whole_gradient, 0, true, [&](int64_t i) { return kept_channel(l, i, false); });
      if (whole_gradient.shape == gradient.shape)
        // bfloat16 sums query rows in pairs, which other groups make others.
        below(relative_difference(gradient.values, whole_gradient.values), type == TensorFormat::f32 ? 0 : 2e-2,
              what + tensor + " gradient");
    }

    // Adapters of every width, and one that is trained.
    Loaded m(narrower, dropped, best, one);
    const AdapterRef adapter = random_adapter(m, 8, 3);
    expect(same_bits(logits_of(m, two, tokens, adapter, 1000), logits_of(m, one, tokens, adapter, 7)),
           what + "decode and prefill with an adapter");
    std::vector<std::vector<float>> gradients[2];
    for (int form = 0; form < 2; form++) {
      LoraSpec lora{8, 16};
      for (bool& t : lora.targets) t = true;
      auto trainable = m.backend->train_adapter(lora, 1, nullptr);
      for (int step = 0; step < 2; step++) {
        TestPool& pool = form ? two : one;
        train_on(m, pool, {tokens}, trainable.get(), nullptr, {.keep_bytes = form});
        if (step == 0) trainable->optim_step({1e-2f});
      }
      gradients[form] = gradients_of(*trainable);
    }
    expect(gradients[0] == gradients[1], what + "gradients of an adapter");
  }

  // Models of an odd width against the same ones with a further channel of zeros.
  void check_odd_widths(const std::vector<int32_t>& tokens) {
    struct Numbers {
      std::vector<float> logits, decoded, logprobs;
      std::vector<std::vector<float>> gradients;
    };
    auto numbers = [&](const ModelSpec& c, const Arrays& w) {
      Loaded m(c, w, best, one);
      Numbers out;
      out.logits = logits_of(m, two, tokens, nullptr, 1000);
      out.decoded = logits_of(m, one, tokens, nullptr, 1);
      auto trainable = m.backend->train_weights();
      train_on(m, two, {tokens}, trainable.get(), &out.logprobs);
      for (size_t i = 0; i < trainable->tensors().size(); i++)
        if (trainable->tensors()[i].name.ends_with("k_proj.weight") ||
            trainable->tensors()[i].name.ends_with("gate_proj.weight"))
          out.gradients.push_back(read_part(*trainable, int(i), Trainable::Part::gradient));
      return out;
    };
    const ModelSpec whole = read_spec(folder, type);
    for (bool hidden : {false, true}) {
      ModelSpec narrow_config = whole, wide_config = whole;
      Arrays dropped = weights, zeroed = weights;
      const int width = (hidden ? whole.hidden : whole.layers[0].feed_forward.intermediate) - 1;
      if (hidden)
        narrow_config.hidden = width;
      else
        for (LayerSpec& l : narrow_config.layers) l.feed_forward.intermediate = width;
      for (bool drop : {false, true})
        for (auto& [tensor, a] : drop ? dropped : zeroed) {
          const bool input =
              hidden && (tensor.find("q_proj.w") + 1 || tensor.find("k_proj.w") + 1 || tensor.find("v_proj.w") + 1 ||
                         tensor.find("embed") + 1 || tensor.find("lm_head") + 1);
          const bool gate = tensor.find("gate_proj.w") + 1 || tensor.find("up_proj.w") + 1,
                     down = tensor.find("down_proj.w") + 1, o = tensor.find("o_proj.w") + 1;
          const bool norm = tensor.find("layernorm") + 1 || tensor == "model.norm.weight";
          if (hidden ? down || o || norm : gate) narrow(a, 0, width, drop);
          if (hidden ? input || gate : down) narrow(a, 1, width, drop);
          // The mean of squares is over a channel more.
          if (hidden && norm && drop)
            for (float& x : a.values) x *= std::sqrt(float(width + 1) / float(width));
        }
      if (hidden) narrow_config.rms_eps *= float(width + 1) / float(width);
      const Numbers odd = numbers(narrow_config, dropped), even = numbers(wide_config, zeroed);
      const std::string what =
          name + (hidden ? " hidden width " : " intermediate width ") + std::to_string(width) + ": ";
      expect(same_bits(odd.logits, odd.decoded), what + "decode and prefill");
      const double tolerance = type == TensorFormat::f32 ? 1e-4 : 3e-2;
      if (hidden) {
        below(max_difference(odd.logits, even.logits), 10 * tolerance, what + "logits");
        for (size_t i = 0; i < odd.gradients.size(); i++) {
          // Rows of the narrow one, with the norm's scale in them.
          std::vector<float> rows;
          for (size_t j = 0; j < even.gradients[i].size(); j++)
            if (int(j) % (width + 1) < width) rows.push_back(even.gradients[i][j]);
          below(relative_difference(odd.gradients[i], rows), tolerance, what + "gradient");
        }
      } else {
        expect(same_bits(odd.logits, even.logits) && same_bits(odd.logprobs, even.logprobs), what + "logits");
        for (size_t i = 0; i < odd.gradients.size(); i++) {
          expect(std::equal(odd.gradients[i].begin(), odd.gradients[i].end(), even.gradients[i].begin()),
                 what + "gradient");
        }
      }
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

// The same of the family of the matrix unit, by the unit itself where there is one.
void check_fast_family(Case c, const Sequences& rows, bool long_sequences) {
  c.isas = kFastIsas;
  bool any = false;
  for (Isa isa : kFastIsas)
    if (kernels(isa, DType::bf16)) c.best = isa, any = true;
  if (!any) return;
  c.name += " fast family";
  for (KvCache cache : {KvCache::exact, KvCache::int8}) {
    if (cache == KvCache::int8) c.kv_cache = cache, c.name += " int8 cache";
    c.check_cuts(rows[1], true);
    if (long_sequences) c.check_cuts(some_tokens(1100, 384, 9), false);
    c.check_batches();
    if (!c.saved.model.recurrent()) c.check_shared_pages({320, 320, 200, 320, 128, 130, 60}, {9, 70, 3, 1, 140, 30, 5});
    if (long_sequences) c.check_shared_pages({1300, 1024, 1300, 1100}, {5, 30, 900, 1});
    c.check_gradients(rows);
    // So many rows that they stay with their worker.
    if (long_sequences)
      c.check_gradients({some_tokens(333, 384, 1), some_tokens(250, 384, 2), some_tokens(90, 384, 3)});
    c.check_prefixes();
  }
}

}  // namespace

void check_bits(const std::string& folder) {
  TestPool one(1), two(2);
  const std::string name = std::filesystem::path(folder).filename();
  Arrays expected;
  read_safetensors(folder + "/expected.safetensors", expected);
  Sequences rows;
  for (int r = 0; r < 3; r++) rows.push_back(expected.at("row" + std::to_string(r) + ".tokens").integers());
  for (TensorFormat type : {TensorFormat::f32, TensorFormat::bf16}) {
    Case c{name + (type == TensorFormat::f32 ? " float32" : " bfloat16"),
           folder,
           read_weights(folder),
           SavedAdapter(folder),
           type,
           one,
           two};
    c.check_cuts(rows[1], true);
    // Head widths of 14, 16 and 32, with a window and soft caps among them.
    if (name == "qwen3" || name == "gemma2" || name == "ministral_odd") {
      Case coded = c;
      coded.name += " int8 cache", coded.kv_cache = KvCache::int8;
      coded.check_cuts(rows[1], true);
      if (name == "qwen3") coded.check_cuts(some_tokens(1100, 384, 9), false);
      coded.check_batches();
      coded.check_shared_pages({320, 320, 200, 320, 128, 130, 60}, {9, 70, 3, 1, 140, 30, 5});
      if (name == "qwen3") coded.check_shared_pages({1300, 1024, 1300, 1100}, {5, 30, 900, 1});
      coded.check_gradients(rows);
      coded.check_prefixes();
    }
    if (name == "qwen3") c.check_cuts(some_tokens(1100, 384, 9), false);  // more than one attention segment
    c.check_batches();
    // A state goes on from where it is: sequences that have one have no pages to read twice.
    if (!c.saved.model.recurrent()) c.check_shared_pages({320, 320, 200, 320, 128, 130, 60}, {9, 70, 3, 1, 140, 30, 5});
    if (name == "qwen3" || name == "llama") c.check_shared_pages({1300, 1024, 1300, 1100}, {5, 30, 900, 1});
    c.check_gradients(rows);
    c.check_prefixes();
    c.check_aborts(rows);
    c.check_aborted_steps(rows);
    if (name == "qwen2" || name == "llama") c.check_odd_widths(rows[0]);
    if (name == "llama") c.check_layer_shapes(rows[1]);
    if (type == TensorFormat::bf16) check_fast_family(c, rows, name == "qwen3");
  }
}
