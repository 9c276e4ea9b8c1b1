kernel void softcap(INPUT(x), OUTPUT(y), const Walk walk, const float cap) {
#define STEP(o, i0) PUT(y, o, cap * tanh(GET(x, i0) / cap));
  WALK(walk, 2, STEP)
}
