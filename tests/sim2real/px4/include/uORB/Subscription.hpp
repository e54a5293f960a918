/* A stand-in for PX4's header of this name, as far as the module uses it. */
#pragma once
#define ORB_ID(x) (&orb_##x)
namespace uORB {
class Subscription {
public:
	template <typename T> explicit Subscription(T *from) : _from(from) {}
	template <typename T> bool copy(T *to) { *to = *static_cast<const T *>(_from); return to->timestamp != 0; }
private:
	const void *_from;
};
}
