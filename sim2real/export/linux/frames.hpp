/* Between the contract's axes (world x east, y north, z up; body x forward, y left, z up) and those of aviation (world north,
   east, down; body forward, right, down). Quaternions: w, x, y, z. */
#ifndef FLIGHT_FRAMES_HPP
#define FLIGHT_FRAMES_HPP

#include <cmath>

namespace flight {

constexpr double pi = 3.14159265358979323846;

struct Vector {
    double x, y, z;
};

struct Rotation {
    double w, x, y, z;
};

/* A world vector, and a body vector, in the other axes; each its own inverse. */
inline Vector to_ned(Vector v) { return {v.y, v.x, -v.z}; }
inline Vector to_frd(Vector v) { return {v.x, -v.y, -v.z}; }

/* The rotation by `b` and then by `a`. */
inline Rotation multiply(Rotation a, Rotation b)
{
    return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
            a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

/* The rotation from body to world axes in the other axes of both; its own inverse. */
inline Rotation turn_ned(Rotation q)
{
    const double half = std::sqrt(0.5);
    const Rotation out = multiply(multiply({0.0, half, half, 0.0}, q), {0.0, 1.0, 0.0, 0.0});
    return out.w >= 0.0 ? out : Rotation{-out.w, -out.x, -out.y, -out.z};
}

/* rad: turns about z, then y, then x. */
inline Vector euler(Rotation q)
{
    const double s = 2.0 * (q.w * q.y - q.z * q.x);
    return {std::atan2(2.0 * (q.w * q.x + q.y * q.z), 1.0 - 2.0 * (q.x * q.x + q.y * q.y)),
            std::asin(s > 1.0 ? 1.0 : s < -1.0 ? -1.0 : s),
            std::atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))};
}

inline Rotation from_euler(double roll, double pitch, double yaw)
{
    const double cr = std::cos(roll / 2), sr = std::sin(roll / 2);
    const double cp = std::cos(pitch / 2), sp = std::sin(pitch / 2);
    const double cy = std::cos(yaw / 2), sy = std::sin(yaw / 2);
    return {cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy};
}

/* A heading from east against the clock as one from north with the clock, in [-pi, pi]; its own inverse. */
inline double yaw_to_ned(double yaw) { return std::remainder(pi / 2 - yaw, 2 * pi); }

} // namespace flight

#endif
