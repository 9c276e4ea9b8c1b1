kernel void fill(OUTPUT(y), const Walk walk, const float value) {
#define STEP(i0) PUT(y, i0, value);
  WALK(walk, 1, STEP)
}
