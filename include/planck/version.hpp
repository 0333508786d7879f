// The library's version; CMake reads it from here.
#pragma once

#define PLANCK_VERSION_MAJOR 0
#define PLANCK_VERSION_MINOR 1
#define PLANCK_VERSION_PATCH 0
