/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
namespace px4 { enum class params { MPC_THR_HOVER, RKY_TILT_MAX, RKY_FENCE }; extern float values[3]; }
class ModuleParams { public: explicit ModuleParams(ModuleParams *) {} protected: void updateParams() {} };
template <px4::params p> class ParamFloat { public: float get() const { return px4::values[static_cast<int>(p)]; } };
#define ROOKERY_DECLARE(x) ROOKERY_STRIP x;
#define ROOKERY_STRIP(...) __VA_ARGS__
#define DEFINE_PARAMETERS(a, b, c) ROOKERY_DECLARE(a) ROOKERY_DECLARE(b) ROOKERY_DECLARE(c)
