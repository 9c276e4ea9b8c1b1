// fake_cann_probe LIBRARY SYMBOL...: prints those of the symbols that the library has.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** words) {
  if (count < 2) return 2;
  void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const char* between = "";
  for (int i = 2; i < count; ++i) {
    if (dlsym(library, words[i]) == nullptr) continue;
    std::printf("%s%s", between, words[i]);
    between = " ";
  }
  std::printf("\n");
  return 0;
}
