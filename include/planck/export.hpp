// The symbol visibility of the library: everything is hidden unless it says PLANCK_API.
#pragma once

#if defined(_WIN32)
#error "Planck supports ELF platforms only"
#else
#define PLANCK_API [[gnu::visibility("default")]]
#endif
