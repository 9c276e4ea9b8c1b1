// Between f32, f16 and bf16, whose dtypes are known when it is compiled.
#ifdef FLOATS
kernel void cast_floats(INPUT(x), OUTPUT(y), const Walk walk) {
#define STEP(o, i0) PUT_OR_ADD(y, o, GET(x, i0));
  WALK(walk, 2, STEP)
}
#else

// Between all others: dtypes are arguments, as there are 225 pairs of them.
#if HAS_FP64
typedef double Real;
#else
typedef float Real;
#endif

// A number as it was read: whole ones keep their 64 bits.
typedef struct {
  int is_real;
  int is_unsigned;
  Real real;
  long whole;
} Number;

static float e4m3_to_float(uchar code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  float value = exponent != 0 ? ldexp(1.0f + mantissa * 0.125f, exponent - 7) : mantissa * 0x1p-9f;
  if (exponent == 15 && mantissa == 7) value = NAN;
  return code & 0x80 ? -value : value;
}

static float half_to_float(ushort bits) { return vload_half(0, (const half*)&bits); }

static Number load_number(int type, const global uchar* at, long i) {
  Number number = {0, 0, 0, 0};
  number.is_real = type <= F64 || type >= F8_E4M3;
  number.is_unsigned = type == U64;
  switch (type) {
    case F32: number.real = ((const global float*)at)[i]; break;
    case F16: number.real = vload_half(i, (const global half*)at); break;
    case BF16: number.real = bf16_to_float(((const global ushort*)at)[i]); break;
#if HAS_FP64
    case F64: number.real = ((const global double*)at)[i]; break;
#endif
    case F8_E4M3: number.real = e4m3_to_float(at[i]); break;
    case F8_E5M2: number.real = half_to_float((ushort)at[i] << 8); break;
    case I8: number.whole = ((const global char*)at)[i]; break;
    case U8: number.whole = at[i]; break;
    case I16: number.whole = ((const global short*)at)[i]; break;
    case U16: number.whole = ((const global ushort*)at)[i]; break;
    case I32: number.whole = ((const global int*)at)[i]; break;
    case U32: number.whole = ((const global uint*)at)[i]; break;
    case BOOL: number.whole = at[i] != 0; break;
    default: number.whole = ((const global long*)at)[i]; break;
  }
  return number;
}

// fp32 towards zero, with the last bit set where something was cut off: rounding that to 16 bits or fewer rounds once.
static float to_odd(Number number) {
  float value;
  int exact;
  if (number.is_real) {
#if HAS_FP64
    value = convert_float_rtz(number.real);
    exact = (double)value == number.real || isnan(number.real);
#else
    value = number.real;
    exact = 1;
#endif
  } else if (number.is_unsigned) {
    value = convert_float_rtz(as_ulong(number.whole));
    exact = convert_ulong(value) == as_ulong(number.whole);
  } else {
    value = convert_float_rtz(number.whole);
    exact = convert_long(value) == number.whole;
  }
  return exact ? value : as_float(as_uint(value) | 1u);
}

static Real to_real(Number number) {
  if (number.is_real) return number.real;
  return number.is_unsigned ? (Real)as_ulong(number.whole) : (Real)number.whole;
}

static float to_float(Number number) {
  if (number.is_real) return (float)number.real;
  return number.is_unsigned ? convert_float(as_ulong(number.whole)) : convert_float(number.whole);
}

// A float of 8 bits: `mantissa` bits, this bias; `largest`: the code of the largest number, `beyond`: of what is larger.
static uchar encode_byte(float value, int mantissa, int bias, uint largest, uint beyond) {
  const uint bits = as_uint(value);
  const uint sign = bits >> 24 & 0x80u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uchar)(sign | 0x7fu);
  if (magnitude == 0x7f800000u) return (uchar)(sign | beyond);
  const int exponent = (int)(magnitude >> 23) - 127;
  const int below = max(0, 1 - bias - exponent);  // steps into the subnormal numbers
  const int shift = 23 - mantissa + below;
  if (shift > 24 || magnitude < 0x00800000u) return (uchar)sign;
  const uint whole = (magnitude & 0x7fffffu) | 0x800000u;
  uint code = whole >> shift;
  const uint rest = whole & ((1u << shift) - 1u);
  const uint middle = 1u << (shift - 1);
  code += rest > middle || (rest == middle && (code & 1u));
  if (below == 0) code += (uint)(exponent + bias - 1) << mantissa;
  return (uchar)(sign | (code > largest ? beyond : code));
}

// Towards zero, past the ends to the ends, NaN to 0.
static long saturate(Real value, long low, long high) {
  if (isnan(value)) return 0;
  if (value <= (Real)low) return low;
  if (value >= (Real)high) return high;
  return (long)value;
}

static long to_whole(Number number, long low, long high) {
  return number.is_real ? saturate(number.real, low, high) : number.whole;
}

static ulong to_u64(Number number) {
  if (!number.is_real) return as_ulong(number.whole);
  if (!(number.real > 0)) return 0;
  return number.real >= (Real)0x1p64f ? ULONG_MAX : (ulong)number.real;
}

static void store_number(int type, int adds, global uchar* at, long i, Number number) {
  if (adds) {
    number.real = to_real(load_number(type, at, i)) + to_real(number);
    number.is_real = 1;
  }
  switch (type) {
    case F32: ((global float*)at)[i] = to_float(number); break;
    case F16: vstore_half_rte(to_odd(number), i, (global half*)at); break;
    case BF16: ((global ushort*)at)[i] = float_to_bf16(to_odd(number)); break;
#if HAS_FP64
    case F64: ((global double*)at)[i] = to_real(number); break;
#endif
    case F8_E4M3: at[i] = encode_byte(to_odd(number), 3, 7, 0x7e, 0x7f); break;
    case F8_E5M2: at[i] = encode_byte(to_odd(number), 2, 15, 0x7b, 0x7c); break;
    case I8: ((global char*)at)[i] = (char)to_whole(number, CHAR_MIN, CHAR_MAX); break;
    case U8: at[i] = (uchar)to_whole(number, 0, UCHAR_MAX); break;
    case I16: ((global short*)at)[i] = (short)to_whole(number, SHRT_MIN, SHRT_MAX); break;
    case U16: ((global ushort*)at)[i] = (ushort)to_whole(number, 0, USHRT_MAX); break;
    case I32: ((global int*)at)[i] = (int)to_whole(number, INT_MIN, INT_MAX); break;
    case U32: ((global uint*)at)[i] = (uint)to_whole(number, 0, UINT_MAX); break;
    case I64: ((global long*)at)[i] = to_whole(number, LONG_MIN, LONG_MAX); break;
    case U64: ((global ulong*)at)[i] = to_u64(number); break;
    default: at[i] = number.is_real ? number.real != 0 : number.whole != 0; break;
  }
}

kernel void cast_any(INPUT(x), OUTPUT(y), const Walk walk, const int x_type, const int y_type, const int adds) {
#define STEP(o, i0) store_number(y_type, adds, AT(y), o, load_number(x_type, AT(x), i0));
  WALK(walk, 2, STEP)
}

// Elements of one size, bits kept.
kernel void copy_bits(INPUT(x), OUTPUT(y), const Walk walk, const int bytes) {
#define COPY(type, o, i0) AS_OUT(type, y)[o] = AS(type, x)[i0]
#define COPY_STEP(o, i0)                   \
  if (bytes == 1) COPY(uchar, o, i0);      \
  else if (bytes == 2) COPY(ushort, o, i0); \
  else if (bytes == 4) COPY(uint, o, i0);  \
  else COPY(ulong, o, i0);
  WALK(walk, 2, COPY_STEP)
}
#endif
