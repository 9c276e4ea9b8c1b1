/* Lists of kernels: which takes a desc, and what the choice of it is called. See tern/plugin.h. */
#ifndef TERN_PLUGIN_KERNELS_H
#define TERN_PLUGIN_KERNELS_H

#include "tern/plugin/desc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What every kernel of a list begins with; a backend puts its own members behind it (how to launch it, what workspace
 * it needs) and casts back. */
typedef struct tern_plugin_kernel {
  uint32_t op;      /* TERN_OP_* */
  const char* name; /* unique among the kernels of its op */
  /* Whether it takes a desc that tern_plugin_take_desc gave; if not, tern_plugin_fail with TERN_UNSUPPORTED and the
   * reason, without the op's name. TERN_INVALID_ARGUMENT if shapes break the op's contract. Null: it takes every one.
   */
  tern_status (*supports)(const struct tern_plugin_kernel* kernel, tern_device device, const tern_op_desc* desc);
  /* The text that names it in tern_plan_info.choice: "name@target" where one kernel computes in several ways. Null: its
   * name. */
  void (*choice)(const struct tern_plugin_kernel* kernel, tern_device device, tern_text text);
} tern_plugin_kernel;

/* Writes a kernel's choice. */
static inline void tern_plugin_choice(const tern_plugin_kernel* kernel, tern_device device, tern_text text) {
  if (kernel->choice != NULL) {
    kernel->choice(kernel, device, text);
  } else {
    tern_plugin_put_text(text, kernel->name);
  }
}

/* Appends to a list in a text: `separator` stands between entries. */
static inline void tern_plugin_append(tern_text text, const char* separator, const char* entry) {
  const size_t length = strlen(text.data);
  const tern_text rest = {text.data + length, text.capacity - length};
  tern_plugin_put_text(rest, length > 0 ? separator : "");
  const size_t gap = strlen(rest.data);
  const tern_text end = {rest.data + gap, rest.capacity - gap};
  tern_plugin_put_text(end, entry);
}

/* The kernels of a list that take the desc (and are called `choice`, unless that is null or ""), in the list's order:
 * the first `room` of them. Gives how many were found. If none, *status and the last error say why: the refusals of all
 * that were asked, or that no kernel is called so; else *status is TERN_OK. `desc` is one that tern_plugin_take_desc gave. */
static inline uint32_t tern_plugin_find_kernels(const tern_plugin_kernel* const* kernels, uint32_t count,
                                                tern_device device, const tern_op_desc* desc, const char* choice,
                                                const tern_plugin_kernel** found, uint32_t room, tern_status* status) {
  const char* const op = tern_plugin_op_name(desc->op);
  const int any = choice == NULL || *choice == '\0';
  char refusals[TERN_PLUGIN_ERROR_BYTES] = "";
  char others[TERN_PLUGIN_ERROR_BYTES] = ""; /* what the kernels are called that were not meant */
  const tern_text refusals_text = {refusals, sizeof refusals};
  const tern_text others_text = {others, sizeof others};
  uint32_t taken = 0;
  *status = TERN_UNSUPPORTED;
  for (uint32_t i = 0; i < count && taken < room; ++i) {
    char name[TERN_CHOICE_BYTES] = "";
    const tern_text name_text = {name, sizeof name};
    if (kernels[i]->op != desc->op) continue;
    if (!any) tern_plugin_choice(kernels[i], device, name_text);
    if (!any && strcmp(name, choice) != 0) {
      tern_plugin_append(others_text, ", ", name);
      continue;
    }
    const tern_status answer = kernels[i]->supports == NULL ? TERN_OK : kernels[i]->supports(kernels[i], device, desc);
    if (answer == TERN_OK) {
      found[taken++] = kernels[i];
      continue;
    }
    if (answer != TERN_UNSUPPORTED) *status = answer;
    tern_plugin_append(refusals_text, "; ", tern_plugin_error());
  }
  if (taken > 0) {
    *status = TERN_OK;
  } else if (refusals[0] != '\0') {
    (void)tern_plugin_fail(*status, "%s: %s", op, refusals);
  } else if (others[0] != '\0') {
    (void)tern_plugin_fail(*status, "%s: no kernel is called \"%s\" here; there is %s", op, choice, others);
  } else {
    (void)tern_plugin_fail(*status, "%s: this device has no kernel for it", op);
  }
  return taken;
}

/* Reads the desc into `own` (tern_plugin_take_desc) and finds the first kernel that takes it, as a backend that
 * measures nothing chooses: for `supports`, where `found` is null, and `plan`. */
static inline tern_status tern_plugin_find_kernel(const tern_plugin_kernel* const* kernels, uint32_t count,
                                                  tern_device device, const tern_op_desc* desc, const char* choice,
                                                  tern_plugin_desc* own, const tern_plugin_kernel** found) {
  const tern_plugin_kernel* first = NULL;
  tern_status status = tern_plugin_take_desc(desc, own);
  if (status != TERN_OK) return status;
  (void)tern_plugin_find_kernels(kernels, count, device, &own->desc, choice, &first, 1, &status);
  if (found != NULL) *found = first;
  return status;
}

/* What tern_backend.supports gives back: the status, with the last error in `reason` where it isn't TERN_OK. */
static inline tern_status tern_plugin_answer(tern_status status, tern_text reason) {
  tern_plugin_put_text(reason, status == TERN_OK ? "" : tern_plugin_error());
  return status;
}

#ifdef __cplusplus
}
#endif
#endif
