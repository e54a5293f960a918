/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
#include <stdint.h>
typedef uint64_t hrt_abstime;
extern "C" hrt_abstime hrt_absolute_time();
