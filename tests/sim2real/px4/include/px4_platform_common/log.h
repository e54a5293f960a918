/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
#define PX4_ERR(...)
inline void px4_warned(const char *, ...) {}
#define PX4_WARN(...) px4_warned(__VA_ARGS__)
