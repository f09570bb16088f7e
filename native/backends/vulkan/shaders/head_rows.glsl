// What the shaders of the head's rows share: what is asked of each, and what they hand on.
struct Entry {
  int target;
  float inverse_temperature;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Entries { Entry at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Pairs { vec2 at[]; };
