// What holds the precompiled headers: a target needs a source.
