// What is asked of a row of logits, as row_sampler.cpp has it. Lists are places in `lists`; what they hold is said there.
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

// Of 512 columns of a request's row.
struct Block {
  float maximum, mass, tempered_maximum, tempered_mass;  // of logits; of logits at the temperature that is reported
  uint key;  // of the likeliest
  int id;    // -1: there is NaN or infinity
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Blocks { Block at[]; };

const uint kMinusInfinity = 0xff800000u;

// Integers in the order of the numbers; what rounds to zero is zero.
uint ordered(float x) {
  const uint bits = as_bits(x);
  if ((bits & kExponent) == 0u) return 0x80000000u;
  return bits ^ (uint(int(bits) >> 31) | 0x80000000u);
}
float unordered(uint key) { return as_float((key & 0x80000000u) != 0u ? key ^ 0x80000000u : ~key); }
