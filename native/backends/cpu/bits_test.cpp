// The promises about bits: a token's logits and log-probability do not depend on how the work was cut, batched, spread
// over workers or compiled.
#include <deque>
#include <filesystem>
#include <map>

#include "bits_fixture.h"

namespace {

struct Case : BitsCase {
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
    check_guesses(m, sequences, adapters, wanted);
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

  // Tokens that were guessed, of which some count, beside others: their logits, and those of what goes on from there.
  void check_guesses(Loaded& m, const Sequences& sequences, std::span<const AdapterRef> adapters,
                     const std::vector<std::vector<float>>& wanted) {
    const int vocab = m.vocab(), first = 6, count = 8;
    std::vector<int32_t> tables[count], guessing[count];
    std::vector<Run> before, guesses, behind;
    std::vector<int> kept;
    for (int i = 0; i < count; i++) {
      const std::vector<int32_t>& tokens = sequences[first + i];
      const int n = int(tokens.size()), half = n / 2, known = std::min(1 + i % 3, n - half),
                guessed = std::min(i + 1, n - half - known);
      kept.push_back(std::min(i % 4, guessed));
      tables[i] = {2 * i, 2 * i + 1};
      guessing[i].assign(tokens.begin() + half, tokens.begin() + half + known + guessed);
      for (int g = kept[i]; g < guessed; g++) {
        int32_t& token = guessing[i][size_t(known + g)];
        token = (token + 1) % vocab;
      }
      const int from = half + known + kept[i];
      const AdapterRef& adapter = adapters[(first + i) % 4];
      before.push_back({tokens.data(), half, 0, tables[i].data(), adapter, WantedLogits::none});
      guesses.push_back({guessing[i].data(), known + guessed, half, tables[i].data(), adapter, WantedLogits::all});
      guesses[i].guesses = guessed;
      behind.push_back({tokens.data() + from, n - from, from, tables[i].data(), adapter, WantedLogits::all});
      before[i].recurrent = guesses[i].recurrent = behind[i].recurrent = i;
    }
    m.step(before);
    const auto compare = [&](const std::vector<Run>& runs, const char* what) {
      const std::vector<float> out = rows_of(m, *m.step(runs));
      size_t at = 0;
      for (int i = 0; i < count; i++) {
        const int same = runs[i].guesses > 0 ? runs[i].count - runs[i].guesses + kept[i] : runs[i].count;
        const auto of = wanted[first + i].begin() + int64_t(runs[i].position) * vocab;
        expect(
            same_bits({out.begin() + at, out.begin() + at + int64_t(same) * vocab}, {of, of + int64_t(same) * vocab}),
            name + ": " + what + " of sequence " + std::to_string(i));
        at += size_t(runs[i].count) * vocab;
      }
    };
    compare(guesses, "guesses");
    expect(m.backend->takes_guesses_back() && m.backend->keep_guesses(kept), name + ": guesses are kept");
    compare(behind, "tokens behind guesses");
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
    check_training(c, rows);
    // So many rows that they stay with their worker.
    if (long_sequences)
      check_gradients(c, {some_tokens(333, 384, 1), some_tokens(250, 384, 2), some_tokens(90, 384, 3)});
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
    Case c{{name + (type == TensorFormat::f32 ? " float32" : " bfloat16"), folder, read_weights(folder),
            SavedAdapter(folder), type, one, two}};
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
      check_training(coded, rows);
    }
    if (name == "qwen3") c.check_cuts(some_tokens(1100, 384, 9), false);  // more than one attention segment
    c.check_batches();
    // A state goes on from where it is: sequences that have one have no pages to read twice.
    if (!c.saved.model.recurrent()) c.check_shared_pages({320, 320, 200, 320, 128, 130, 60}, {9, 70, 3, 1, 140, 30, 5});
    if (name == "qwen3" || name == "llama") c.check_shared_pages({1300, 1024, 1300, 1100}, {5, 30, 900, 1});
    check_training(c, rows);
    check_aborted_training(c, rows);
    if (name == "qwen2" || name == "llama") c.check_odd_widths(rows[0]);
    if (name == "llama") c.check_layer_shapes(rows[1]);
    if (type == TensorFormat::bf16) check_fast_family(c, rows, name == "qwen3");
  }
}
