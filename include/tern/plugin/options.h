/* The options and the profile that device_open is given. See tern/plugin.h. */
#ifndef TERN_PLUGIN_OPTIONS_H
#define TERN_PLUGIN_OPTIONS_H

#include "tern/plugin/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether `line`, "key: what it does", is of this key. */
static inline int tern_plugin_line_has_key(const char* line, const char* key) {
  const size_t length = strlen(key);
  return length > 0 && strncmp(line, key, length) == 0 && line[length] == ':';
}

/* The keys of the lines of tern_backend.device_options, separated by commas; null: there are none. */
static inline void tern_plugin_put_keys(tern_text to, const char* const* lines) {
  tern_plugin_put_text(to, "");
  for (; lines != NULL && *lines != NULL; ++lines) {
    const char* const colon = strchr(*lines, ':');
    const size_t held = strlen(to.data);
    const tern_text rest = {to.data + held, to.capacity - held};
    tern_plugin_put_text(rest, held > 0 ? ", " : "");
    const size_t begin = strlen(to.data);
    const tern_text end = {to.data + begin, to.capacity - begin};
    tern_plugin_put(end, *lines, colon != NULL ? (size_t)(colon - *lines) : strlen(*lines));
  }
}

/* Refuses an option that isn't one of `lines`, or that is given twice. TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_check_options(const tern_open_args* args, const char* const* lines) {
  for (uint32_t i = 0; i < args->num_options; ++i) {
    const char* const key = args->options[i].key;
    const char* const* line = lines;
    if (key == NULL || args->options[i].value == NULL) {
      return tern_plugin_fail(TERN_INVALID_ARGUMENT, "device_open: option %lu has no key or no value",
                              (unsigned long)i);
    }
    for (uint32_t j = 0; j < i; ++j) {
      if (strcmp(args->options[j].key, key) != 0) continue;
      return tern_plugin_fail(TERN_INVALID_ARGUMENT, "device option \"%s\": expected it once, found it twice", key);
    }
    while (line != NULL && *line != NULL && !tern_plugin_line_has_key(*line, key)) ++line;
    if (line != NULL && *line != NULL) continue;
    char keys[256] = "";
    const tern_text keys_text = {keys, sizeof keys};
    tern_plugin_put_keys(keys_text, lines);
    if (keys[0] == '\0') {
      return tern_plugin_fail(TERN_INVALID_ARGUMENT, "device option \"%s\": this backend has no options", key);
    }
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "device option \"%s\": expected one of %s, found \"%s\"", key, keys,
                            key);
  }
  return TERN_OK;
}

/* Reads what device_open is given: a present device and no profile, or the ordinal -1 and a profile. `lines` is
 * tern_backend.device_options. TERN_INVALID_ARGUMENT, TERN_UNSUPPORTED. */
static inline tern_status tern_plugin_take_open_args(const tern_open_args* given, const char* const* lines,
                                                     tern_open_args* own) {
  memset(own, 0, sizeof *own);
  const tern_status status = tern_plugin_take_struct(own, sizeof *own, sizeof *own, given);
  if (status != TERN_OK) return status;
  if (own->reserved != 0) return tern_plugin_fail(TERN_UNSUPPORTED, "device_open: a reserved member isn't 0");
  if (own->ordinal < -1 || (own->ordinal == -1) != (own->profile != NULL)) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT,
                            "device_open: expected an ordinal without a profile, or -1 with one, found %ld and %s",
                            (long)own->ordinal, own->profile != NULL ? own->profile : "none");
  }
  if (own->num_options > 0 && own->options == NULL) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "device_open: no options, but their number is %lu",
                            (unsigned long)own->num_options);
  }
  return tern_plugin_check_options(own, lines);
}

/* The value of an option; null: it wasn't given. `args` has been taken. */
static inline const char* tern_plugin_option(const tern_open_args* args, const char* key) {
  for (uint32_t i = 0; i < args->num_options; ++i) {
    if (strcmp(args->options[i].key, key) == 0) return args->options[i].value;
  }
  return NULL;
}

/* Reads an option that is a whole number; `value` stays as it was if it wasn't given. TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_option_number(const tern_open_args* args, const char* key, uint64_t low,
                                                    uint64_t high, uint64_t* value) {
  const char* const text = tern_plugin_option(args, key);
  uint64_t number = 0;
  int fits = 1;
  if (text == NULL) return TERN_OK;
  for (const char* c = text; *c != '\0' && fits; ++c) {
    const uint64_t digit = (uint64_t)(unsigned char)*c - (uint64_t)'0';
    fits = digit <= 9 && number <= (UINT64_MAX - digit) / 10;
    if (fits) number = number * 10 + digit;
  }
  if (text[0] == '\0' || !fits || number < low || number > high) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT,
                            "device option \"%s\": expected a number from %llu to %llu, found \"%s\"", key,
                            (unsigned long long)low, (unsigned long long)high, text);
  }
  *value = number;
  return TERN_OK;
}

/* The place of a profile in tern_backend.profiles, which device_describe and device_open are given. If it's none of
 * them, TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_find_profile(const char* const* profiles, const char* name, uint32_t* place) {
  char names[512] = "";
  const tern_text text = {names, sizeof names};
  for (uint32_t i = 0; profiles != NULL && profiles[i] != NULL; ++i) {
    if (name != NULL && strcmp(profiles[i], name) == 0) {
      *place = i;
      return TERN_OK;
    }
    const size_t held = strlen(names);
    const tern_text rest = {text.data + held, text.capacity - held};
    char entry[64];
    (void)snprintf(entry, sizeof entry, "%s%s", held > 0 ? ", " : "", profiles[i]);
    tern_plugin_put_text(rest, entry);
  }
  return tern_plugin_fail(TERN_INVALID_ARGUMENT, "profile \"%s\": expected one of %s", name != NULL ? name : "", names);
}

#ifdef __cplusplus
}
#endif
#endif
