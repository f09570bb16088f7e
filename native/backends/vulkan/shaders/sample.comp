#version 460
// What is asked of rows of logits [rows][n], a workgroup to a request: log-probabilities, the likeliest tokens, and a draw,
// with the bits of cpu/sampler.cpp. Probabilities are counted in units of 2^-31: sums of them do not depend on their order.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "counts.glsl"
#include "log_sum_exp.glsl"

layout(local_size_x = 256) in;
const int kThreads = 256;
const int kMaxTop = 64;

// As row_sampler.cpp has it. Lists are places in `lists`; what they hold is said there.
struct Request {
  int row, temporary;  // in `logits`; in `rows`, where something is drawn
  int draws;  // 0: only what is asked of the prompt
  int given;  // as if this token had been drawn; -1: none
  int top;    // likeliest tokens to report
  int prompt_token, asks_prompt;
  int mask, other_mask;  // -1: none
  int likeliest, likeliest_count;
  int forbidden, forbidden_count;
  int bias, bias_count;
  int seen, seen_count;
  int asked, asked_count;
  float repetition_penalty, frequency_penalty, presence_penalty;
  float temperature, least, min_p;
  int top_k;                   // 0: all
  uint dropped_low, dropped_high;  // 1 - top_p, of 2^53; 0: nothing
  uint random_low, random_high;    // below 2^53
  float inverse_temperature;   // of what is reported; 0: nothing is
  int results;
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Requests { Request at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Lists { uint at[]; };
// Written by one thread and read by another.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Row { uint at[]; };

layout(push_constant) uniform Parameters {
  Floats logits;
  Requests requests;
  Lists lists;
  Row rows;  // [n] each: logits as edited, then probabilities
  Ints results;
  int n;
};

// Where they stand in a request's results; the likeliest tokens and their log-probabilities follow, then those asked for.
const int kUndecided = 0, kToken = 1, kLogprob = 2, kTemperatureLogprob = 3, kPromptLogprob = 4, kRank = 5, kTopCount = 6,
          kTop = 7;

const uint kMinusInfinity = 0xff800000u;

int me, logits_at, row_at;
bool edited = false;

// Integers in the order of the numbers; what rounds to zero is zero.
uint ordered(float x) {
  const uint bits = as_bits(x);
  if ((bits & kExponent) == 0u) return 0x80000000u;
  return bits ^ (uint(int(bits) >> 31) | 0x80000000u);
}
float unordered(uint key) { return as_float((key & 0x80000000u) != 0u ? key ^ 0x80000000u : ~key); }

float logit(int i) { return edited ? as_float(rows.at[row_at + i]) : logits.at[logits_at + i]; }

void written() {
  memoryBarrierBuffer();
  barrier();
}

// ---- the largest: those of two with the same value by the lower id

shared uint largest_key[kThreads];
shared int largest_id[kThreads];

int likeliest_of_all() {
  uint key = 0u;
  int id = n;
  for (int i = me; i < n; i += kThreads) {
    const uint other = ordered(logit(i));
    if (other > key) key = other, id = i;
  }
  largest_key[me] = key, largest_id[me] = id;
  for (int half_ = kThreads / 2; half_ > 0; half_ /= 2) {
    barrier();
    if (me < half_) {
      const uint other = largest_key[me + half_];
      const int other_id = largest_id[me + half_];
      if (other > largest_key[me] || (other == largest_key[me] && other_id < largest_id[me]))
        largest_key[me] = other, largest_id[me] = other_id;
    }
  }
  barrier();
  const int best = largest_id[0];
  barrier();
  return best;
}

// ---- selection by eight bits at a time

shared uint histogram[kThreads], carries[kThreads];
shared uint chosen;
shared uvec2 left_over;

// The k-th largest value as an integer, and how many of that value are among the k largest.
uint kth_largest(int k, out int of_value) {
  uint prefix = 0u, mask = 0u, left = uint(k);
  for (int shift = 24; shift >= 0; shift -= 8) {
    histogram[me] = 0u;
    barrier();
    for (int i = me; i < n; i += kThreads) {
      const uint key = ordered(logit(i));
      if ((key & mask) == prefix) atomicAdd(histogram[key >> shift & 255u], 1u);
    }
    barrier();
    if (me == 0) {
      uint bin = 255u;
      for (; histogram[bin] < left; bin--) left -= histogram[bin];
      chosen = bin, left_over = uvec2(left, 0u);
    }
    barrier();
    prefix |= chosen << shift, mask |= 255u << shift, left = left_over.x;
    barrier();
  }
  of_value = int(left);
  return prefix;
}

// The largest number below which all that is there sums to `allowance` at most, which is below the sum of everything. Of
// that number, the mass that is there; `below`: the mass of what is smaller.
uint lowest_kept(uvec2 allowance, out uvec2 below, out uvec2 of_number) {
  uint prefix = 0u, mask = 0u;
  below = uvec2(0u);
  for (int shift = 24; shift >= 0; shift -= 8) {
    histogram[me] = 0u, carries[me] = 0u;
    barrier();
    for (int i = me; i < n; i += kThreads) {
      const uint p = rows.at[row_at + i];
      if (p == 0u || (p & mask) != prefix) continue;
      const uint bin = p >> shift & 255u, before = atomicAdd(histogram[bin], p);
      if (before + p < before) atomicAdd(carries[bin], 1u);
    }
    barrier();
    if (me == 0) {
      uint bin = 0u;
      uvec2 sum = below, next = plus(sum, uvec2(histogram[0], carries[0]));
      while (!less(allowance, next)) bin++, sum = next, next = plus(sum, uvec2(histogram[bin], carries[bin]));
      chosen = bin, left_over = sum;
    }
    barrier();
    prefix |= chosen << shift, mask |= 255u << shift, below = left_over;
    of_number = uvec2(histogram[chosen], carries[chosen]);
    barrier();
  }
  return prefix;
}

// ---- sums in the order of ids

shared uvec2 sums[kThreads];
shared int begins;

uint cut = 0u;     // probabilities below are dropped, and this one
int cut_from = 0;  // from this id on

uint kept(int i) {
  const uint p = rows.at[row_at + i];
  return p > cut || (p == cut && i < cut_from) ? p : 0u;
}

uvec2 sum_of_all() {
  uvec2 sum = uvec2(0u);
  for (int i = me; i < n; i += kThreads) sum = plus(sum, uvec2(rows.at[row_at + i], 0u));
  sums[me] = sum;
  barrier();
  if (me == 0) {
    for (int i = 1; i < kThreads; i++) sum = plus(sum, sums[i]);
    left_over = sum;
  }
  barrier();
  sum = left_over;
  barrier();
  return sum;
}

// The first id up to which the probabilities that are kept sum to more than `left`; or, of `equal` > 0, up to which there
// are more than `left` of it. There is one.
int first_beyond(uvec2 left, uint equal) {
  int from = 0, to = n;
  while (to - from > 1) {
    const int width = (to - from + kThreads - 1) / kThreads, begin = from + me * width, end = min(to, begin + width);
    uvec2 sum = uvec2(0u);
    for (int i = begin; i < end; i++)
      sum = plus(sum, uvec2(equal == 0u ? kept(i) : uint(rows.at[row_at + i] == equal), 0u));
    sums[me] = sum;
    barrier();
    if (me == 0) {
      int chunk = 0;
      for (; chunk < kThreads - 1 && !less(left, sums[chunk]); chunk++) left = minus(left, sums[chunk]);
      begins = from + chunk * width, left_over = left;
    }
    barrier();
    from = min(begins, to - 1), to = min(to, from + width), left = left_over;
    barrier();
  }
  return from;
}

// ---- what is reported

shared uint top_keys[kMaxTop];
shared int top_ids[kMaxTop];
shared int top_count, next_id;

// The k likeliest tokens in falling order, with their log-probabilities; 0 < k <= min(n, kMaxTop).
void report_top(int k, float lse, int to) {
  int of_value;
  const uint kth = kth_largest(k, of_value);
  if (me == 0) top_count = 0;
  barrier();
  for (int i = me; i < n; i += kThreads) {
    const uint key = ordered(logit(i));
    if (key <= kth) continue;
    const int at = atomicAdd(top_count, 1);
    top_keys[at] = key, top_ids[at] = i;
  }
  int last = -1;
  for (int j = 0; j < of_value; j++) {
    if (me == 0) next_id = n;
    barrier();
    for (int i = me; i < n; i += kThreads)
      if (i > last && ordered(logit(i)) == kth) {
        atomicMin(next_id, i);
        break;
      }
    barrier();
    last = next_id;
    if (me == 0) top_keys[k - of_value + j] = kth, top_ids[k - of_value + j] = last;
    barrier();
  }
  if (me >= k) return;
  int place = 0;
  for (int j = 0; j < k; j++)
    place += int(top_keys[j] > top_keys[me] || (top_keys[j] == top_keys[me] && top_ids[j] < top_ids[me]));
  results.at[to + place] = top_ids[me];
  results.at[to + k + place] = int(as_bits(logits.at[logits_at + top_ids[me]] - lse));
}

shared int rank;
shared uint strange;

void edit(Request r, int best) {
  int mask = r.mask;
  if (r.other_mask >= 0) {
    bool found = false;
    for (int i = 0; i < r.likeliest_count; i++) found = found || int(lists.at[r.likeliest + i]) == best;
    if (!found) mask = r.other_mask;
  }
  for (int i = me; i < n; i += kThreads) {
    const bool permitted = mask < 0 || (lists.at[mask + (i >> 5)] >> (i & 31) & 1u) != 0u;
    rows.at[row_at + i] = permitted ? as_bits(logits.at[logits_at + i]) : kMinusInfinity;
  }
  written();
  for (int i = me; i < r.forbidden_count; i += kThreads) rows.at[row_at + int(lists.at[r.forbidden + i])] = kMinusInfinity;
  written();
  for (int i = me; i < r.bias_count; i += kThreads) {
    const int at = row_at + int(lists.at[r.bias + 2 * i]);
    rows.at[at] = as_bits(as_float(rows.at[at]) + as_float(lists.at[r.bias + 2 * i + 1]));
  }
  written();
  for (int i = me; i < r.seen_count; i += kThreads) {
    const int at = row_at + int(lists.at[r.seen + 2 * i]), count = int(lists.at[r.seen + 2 * i + 1]);
    float z = as_float(rows.at[at]);
    if (r.repetition_penalty != 1.0)
      z = z > 0.0 ? quotient(z, r.repetition_penalty) : z * r.repetition_penalty;
    if (count > 0) {
      if (r.frequency_penalty != 0.0) z = z - r.frequency_penalty * float(count);
      if (r.presence_penalty != 0.0) z = z - r.presence_penalty;
    }
    rows.at[at] = as_bits(z);
  }
  written();
  edited = true;
}

// Of a row whose largest number is finite.
int drawn(Request r, int best) {
  const float top = logit(best);
  barrier();  // before any of them is overwritten
  float least = r.least;
  if (r.top_k > 0) {
    int of_value;
    const float lowest = quotient(unordered(kth_largest(r.top_k, of_value)) - top, r.temperature);
    least = lowest > least ? lowest : least;
  }
  for (int i = me; i < n; i += kThreads) {
    const float t = quotient(logit(i) - top, r.temperature);
    const float p = t < least ? 0.0 : exponential(t);
    const float coarse = p < 0.00390625 ? (p + 0.00390625) - 0.00390625 : p;  // from 2^-8 on, multiples of 2^-31
    rows.at[row_at + i] = p < r.min_p ? 0u : uint(coarse * 2147483648.0);
  }
  written();
  uvec2 total = sum_of_all();
  const uvec2 dropped = uvec2(r.dropped_low, r.dropped_high);
  if ((dropped.x | dropped.y) != 0u) {
    const uvec2 allowance = exact_share(total, dropped);
    if (!less(allowance, total)) return best;
    uvec2 below, equals;
    const uint edge = lowest_kept(allowance, below, equals);
    const uint gone = quotient_of(minus(allowance, below), edge);
    cut_from = n;
    if (gone > 0u) cut_from = first_beyond(uvec2(quotient_of(equals, edge) - gone, 0u), edge);
    cut = edge;
    total = minus(minus(total, below), times(gone, edge));
  }
  return first_beyond(exact_share(total, uvec2(r.random_low, r.random_high)), 0u);
}

void main() {
  const Request r = requests.at[gl_WorkGroupID.x];
  me = int(gl_LocalInvocationID.x), logits_at = r.row * n, row_at = r.temporary * n;
  const int to = r.results;

  if (me == 0) strange = 0u, rank = 0;
  barrier();
  uint mine = 0u;
  for (int i = me; i < n; i += kThreads) {
    const uint bits = as_bits(logits.at[logits_at + i]);
    mine |= uint(bits == kExponent || (bits & 0x7fffffffu) > kExponent);
  }
  atomicOr(strange, mine);
  barrier();
  // Rows with NaN or infinity are left to the processor.
  if (me == 0) results.at[to + kUndecided] = int(strange);
  if (strange != 0u) return;

  const float lse = log_sum_exp(logits, logits_at, n, 1.0);
  const int top = min(r.top, n);
  if (me == 0) results.at[to + kTopCount] = top;
  if (top > 0) report_top(top, lse, to + kTop);

  if (r.asks_prompt != 0) {
    const float value = logits.at[logits_at + r.prompt_token];
    int as_likely = 0;
    for (int i = me; i < n; i += kThreads) as_likely += int(ordered(logits.at[logits_at + i]) >= ordered(value));
    atomicAdd(rank, as_likely);
    barrier();
    if (me == 0) results.at[to + kPromptLogprob] = int(as_bits(value - lse)), results.at[to + kRank] = rank;
  }
  if (r.draws == 0) return;

  int token = r.given;
  if (token < 0) {
    int best = likeliest_of_all();
    if (r.mask >= 0 || r.other_mask >= 0 || r.forbidden_count > 0 || r.bias_count > 0 || r.seen_count > 0) {
      edit(r, best);
      best = likeliest_of_all();
    }
    const uint largest = as_bits(logit(best));
    if (largest == kMinusInfinity) {
      if (me == 0) results.at[to + kToken] = -1;
      return;
    }
    token = r.temperature == 0.0 || largest == kExponent ? best : drawn(r, best);
  }
  const float logprob = logits.at[logits_at + token] - lse;
  float tempered = 0.0;
  if (r.inverse_temperature != 0.0)
    tempered = r.inverse_temperature * logits.at[logits_at + token] -
               log_sum_exp(logits, logits_at, n, r.inverse_temperature);
  if (me == 0) {
    results.at[to + kToken] = token;
    results.at[to + kLogprob] = int(as_bits(logprob));
    results.at[to + kTemperatureLogprob] = int(as_bits(tempered));
  }
  for (int i = me; i < r.asked_count; i += kThreads)
    results.at[to + kTop + 2 * top + i] = int(as_bits(logits.at[logits_at + int(lists.at[r.asked + i])] - lse));
}
