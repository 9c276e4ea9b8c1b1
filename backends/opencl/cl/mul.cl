kernel void mul(INPUT(x), INPUT(y), OUTPUT(out), const Walk walk) {
#define STEP(o, i0, i1) PUT_OR_ADD(out, o, GET(x, i0) * GET(y, i1));
  WALK(walk, 3, STEP)
}
