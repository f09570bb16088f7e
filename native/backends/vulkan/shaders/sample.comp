#version 460
// What is asked of rows of logits [rows][n], a workgroup to a request: log-probabilities, the likeliest tokens, and a draw,
// with the bits of cpu/sampler.cpp. Probabilities are counted in units of 2^-31: sums of them do not depend on their order.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "counts.glsl"
#define MERGES_BLOCKS
#include "log_sum_exp.glsl"
#include "requests.glsl"

layout(local_size_x_id = 1) in;
const int kThreads = int(gl_WorkGroupSize.x);  // a power of two, 256 or more
const int kMaxTop = 64;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Lists { uint at[]; };
// Written by one thread and read by another.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Row { uint at[]; };

layout(push_constant) uniform Parameters {
  Floats logits;
  Requests requests;
  Lists lists;
  Row rows;  // [n] each: logits as edited, then probabilities
  Ints results;
  Blocks blocks;  // [requests][blocks], of sample_blocks.comp
  int n;
};

// Where they stand in a request's results; the likeliest tokens and their log-probabilities follow, then those asked for.
const int kUndecided = 0, kToken = 1, kLogprob = 2, kTemperatureLogprob = 3, kPromptLogprob = 4, kRank = 5, kTopCount = 6,
          kTop = 7;

int me, logits_at, row_at, blocks_at;
bool edited = false, merges_tempered = false;

float logit(int i) { return edited ? as_float(rows.at[row_at + i]) : logits.at[logits_at + i]; }

// The row goes by in steps of kAhead loads, all of which are made before the first is used: elements first + j * kThreads.
const int kAhead = 8;
void read_logits(int first, out float some[kAhead]) {
  if (edited)
    for (int j = 0; j < kAhead; j++) some[j] = as_float(rows.at[row_at + min(first + j * kThreads, n - 1)]);
  else
    for (int j = 0; j < kAhead; j++) some[j] = logits.at[logits_at + min(first + j * kThreads, n - 1)];
}
void read_row(int first, int stride, out uint some[kAhead]) {
  for (int j = 0; j < kAhead; j++) some[j] = rows.at[row_at + min(first + j * stride, n - 1)];
}

vec2 block_at(int block) {
  const Block b = blocks.at[blocks_at + block];
  return merges_tempered ? vec2(b.tempered_maximum, b.tempered_mass) : vec2(b.maximum, b.mass);
}

void written() {
  memoryBarrierBuffer();
  barrier();
}

// ---- the largest: those of two with the same value by the lower id

shared uvec2 of_thread[kThreads];  // an id and its key; a sum

int likeliest_of_all() {
  uint key = 0u;
  int id = n;
  if (!edited) {
    for (int i = me; i < blocks_of(n); i += kThreads) {
      const Block b = blocks.at[blocks_at + i];
      if (b.key > key) key = b.key, id = b.id;
    }
  } else {
    for (int first = me; first < n; first += kAhead * kThreads) {
      float some[kAhead];
      read_logits(first, some);
      for (int j = 0; j < kAhead; j++) {
        const uint other = ordered(some[j]);
        if (other > key) key = other, id = first + j * kThreads;  // what is read again behind the end is not above itself
      }
    }
  }
  of_thread[me] = uvec2(id, key);
  for (int half_ = kThreads / 2; half_ > 0; half_ /= 2) {
    barrier();
    if (me < half_) {
      const uvec2 own = of_thread[me], other = of_thread[me + half_];
      if (other.y > own.y || (other.y == own.y && other.x < own.x)) of_thread[me] = other;
    }
  }
  barrier();
  const int best = int(of_thread[0].x);
  barrier();
  return best;
}

// ---- sums by bins, and the bin up to which they sum to more than a bound

// Neighbours count in copies of their own: most of a row is in few bins.
const int kBins = 256, kCopies = 8, kCopy = kBins + 1;
shared uint low_sums[kCopies * kCopy], high_sums[kCopies * kCopy];
shared uvec2 running_sums[kBins];
shared uint chosen;
shared uvec2 left_over, of_chosen;

void clear_bins() {
  barrier();
  for (int i = me; i < kCopies * kCopy; i += kThreads) low_sums[i] = 0u, high_sums[i] = 0u;
  barrier();
}

void add_to_bin(uint bin, uvec2 sum) {
  const uint at = uint(me % kCopies * kCopy) + bin, before = atomicAdd(low_sums[at], sum.x);
  const uint high = sum.y + uint(before + sum.x < before);
  if (high != 0u) atomicAdd(high_sums[at], high);
}

// The first bin up to which they sum to more than `bound`, which there is; `below`: the sum of those before it.
int first_bin_beyond(uvec2 bound, out uvec2 below, out uvec2 own) {
  barrier();
  uvec2 mine = uvec2(0u);
  if (me < kBins)
    for (int copy = 0; copy < kCopies; copy++)
      mine = plus(mine, uvec2(low_sums[copy * kCopy + me], high_sums[copy * kCopy + me]));
  uvec2 sum = mine;
  if (me < kBins) running_sums[me] = sum;
  for (int step = 1; step < kBins; step *= 2) {
    barrier();
    uvec2 other = uvec2(0u);
    if (me >= step && me < kBins) other = running_sums[me - step];
    barrier();
    sum = plus(sum, other);
    if (me < kBins) running_sums[me] = sum;
  }
  if (me < kBins && less(bound, sum) && !less(bound, minus(sum, mine)))
    chosen = uint(me), left_over = minus(sum, mine), of_chosen = mine;
  barrier();
  below = left_over, own = of_chosen;
  return int(chosen);
}

// ---- selection by eight bits at a time

// The k-th largest value as an integer, and how many of that value are among the k largest.
uint kth_largest(int k, out int of_value) {
  uint prefix = 0u, mask = 0u, left = uint(k);
  for (int shift = 24; shift >= 0; shift -= 8) {
    clear_bins();
    for (int first = me; first < n; first += kAhead * kThreads) {
      float some[kAhead];
      read_logits(first, some);
      for (int j = 0; j < kAhead; j++) {
        const uint key = ordered(some[j]);
        if (first + j * kThreads < n && (key & mask) == prefix)
          atomicAdd(low_sums[uint(me % kCopies * kCopy) + (~key >> shift & 255u)], 1u);
      }
    }
    uvec2 above, own;
    const int bin = 255 - first_bin_beyond(uvec2(left - 1u, 0u), above, own);
    prefix |= uint(bin) << shift, mask |= 255u << shift, left -= above.x;
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
    clear_bins();
    uvec2 lowest = uvec2(0u);  // most of a row is in the first bin
    for (int first = me; first < n; first += kAhead * kThreads) {
      uint some[kAhead];
      read_row(first, kThreads, some);
      for (int j = 0; j < kAhead; j++) {
        const uint p = some[j], bin = p >> shift & 255u;
        if (p == 0u || (p & mask) != prefix || first + j * kThreads >= n) continue;
        if (bin == 0u)
          lowest = plus(lowest, uvec2(p, 0u));
        else
          add_to_bin(bin, uvec2(p, 0u));
      }
    }
    add_to_bin(0u, lowest);
    uvec2 before;
    prefix |= uint(first_bin_beyond(minus(allowance, below), before, of_number)) << shift;
    mask |= 255u << shift, below = plus(below, before);
  }
  return prefix;
}

// ---- sums in the order of ids

uint cut = 0u;     // probabilities below are dropped, and this one
int cut_from = 0;  // from this id on

uvec2 sum_of_all(uvec2 mine) {
  of_thread[me] = mine;
  for (int half_ = kThreads / 2; half_ > 0; half_ /= 2) {
    barrier();
    if (me < half_) of_thread[me] = plus(of_thread[me], of_thread[me + half_]);
  }
  barrier();
  return of_thread[0];
}

// The first id up to which the probabilities that are kept sum to more than `left`; or, of `equal` > 0, up to which there
// are more than `left` of it. There is one.
int first_beyond(uvec2 left, uint equal) {
  int from = 0, to = n;
  while (to - from > 1) {
    const int width = (to - from + kBins - 1) / kBins;
    clear_bins();
    for (int bin = me / kLanes; bin < kBins; bin += kThreads / kLanes) {
      const int begin = from + bin * width, end = min(to, begin + width);
      uvec2 sum = uvec2(0u);
      for (int first = begin + me % kLanes; first < end; first += kAhead * kLanes) {
        uint some[kAhead];
        read_row(first, kLanes, some);
        for (int j = 0; j < kAhead; j++) {
          const int i = first + j * kLanes;
          const uint p = some[j];
          if (i >= end) continue;
          if (equal != 0u)
            sum.x += uint(p == equal);
          else if (p > cut || (p == cut && i < cut_from))
            sum = plus(sum, uvec2(p, 0u));
        }
      }
      if ((sum.x | sum.y) != 0u) add_to_bin(uint(bin), sum);
    }
    uvec2 below, own;
    from += first_bin_beyond(left, below, own) * width, to = min(to, from + width), left = minus(left, below);
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
  for (int first = me; first < n; first += kAhead * kThreads) {
    float some[kAhead];
    read_logits(first, some);
    for (int j = 0; j < kAhead; j++) {
      const uint key = ordered(some[j]);
      if (key <= kth || first + j * kThreads >= n) continue;
      const int at = atomicAdd(top_count, 1);
      top_keys[at] = key, top_ids[at] = first + j * kThreads;
    }
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
  for (int first = me; first < n; first += kAhead * kThreads) {
    float some[kAhead];
    read_logits(first, some);
    for (int j = 0; j < kAhead; j++) {
      const int i = first + j * kThreads;
      if (i >= n) continue;
      const bool permitted = mask < 0 || (lists.at[mask + (i >> 5)] >> (i & 31) & 1u) != 0u;
      rows.at[row_at + i] = permitted ? as_bits(some[j]) : kMinusInfinity;
    }
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
  uvec2 total = uvec2(0u);
  for (int first = me; first < n; first += kAhead * kThreads) {
    float some[kAhead];
    read_logits(first, some);
    LOOP for (int j = 0; j < kAhead; j++) {
      const int i = first + j * kThreads;
      const float t = quotient(some[j] - top, r.temperature);
      const float p = t < least ? 0.0 : exponential(t);
      const float coarse = p < 0.00390625 ? (p + 0.00390625) - 0.00390625 : p;  // from 2^-8 on, multiples of 2^-31
      const uint units = p < r.min_p || i >= n ? 0u : uint(coarse * 2147483648.0);
      if (i < n) rows.at[row_at + i] = units;
      total = plus(total, uvec2(units, 0u));
    }
  }
  written();
  total = sum_of_all(total);
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
  blocks_at = int(gl_WorkGroupID.x) * blocks_of(n);
  const int to = r.results;

  if (me == 0) strange = 0u, rank = 0;
  barrier();
  uint mine = 0u;
  for (int i = me; i < blocks_of(n); i += kThreads) mine |= uint(blocks.at[blocks_at + i].id < 0);
  if (mine != 0u) atomicOr(strange, mine);
  barrier();
  // Rows with NaN or infinity are left to the processor.
  if (me == 0) results.at[to + kUndecided] = int(strange);
  if (strange != 0u) return;

  const float lse = log_sum_exp(blocks_of(n));
  const int top = min(r.top, n);
  if (me == 0) results.at[to + kTopCount] = top;
  if (top > 0) report_top(top, lse, to + kTop);

  if (r.asks_prompt != 0) {
    const float value = logits.at[logits_at + r.prompt_token];
    int as_likely = 0;
    for (int first = me; first < n; first += kAhead * kThreads) {
      float some[kAhead];
      read_logits(first, some);
      for (int j = 0; j < kAhead; j++)
        as_likely += int(first + j * kThreads < n && ordered(some[j]) >= ordered(value));
    }
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
  if (r.inverse_temperature != 0.0) {
    merges_tempered = true;
    tempered = r.inverse_temperature * logits.at[logits_at + token] - log_sum_exp(blocks_of(n));
  }
  if (me == 0) {
    results.at[to + kToken] = token;
    results.at[to + kLogprob] = int(as_bits(logprob));
    results.at[to + kTemperatureLogprob] = int(as_bits(tempered));
  }
  for (int i = me; i < r.asked_count; i += kThreads)
    results.at[to + kTop + 2 * top + i] = int(as_bits(logits.at[logits_at + int(lists.at[r.asked + i])] - lse));
}
