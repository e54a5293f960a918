#include "safety.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* s, between measurements; those farther apart are not compared: rates change meanwhile, and SAFETY_STALE judges gaps. */
#define APART_S 0.2
/* s, that place and velocity may stay bit for bit the same in flight: estimates come at 10 Hz and more, and each is noisy. */
#define PLACE_S 0.2

void safety_reset(safety_memory *memory) { memset(memory, 0, sizeof *memory); }

static int finite_all(const float *v, int count, int *where) {
    for (int i = 0; i < count; i++) {
        if (!isfinite(v[i])) {
            *where = i;
            return 0;
        }
    }
    return 1;
}

/* FNV-1a over the bits of the values: a measurement that changes by one bit has another digest. */
static unsigned long long digest_of(const float *v, int count) {
    unsigned long long h = 1469598103934665603ULL;
    for (int i = 0; i < count; i++) {
        unsigned int bits;
        memcpy(&bits, &v[i], sizeof bits);
        h = (h ^ bits) * 1099511628211ULL;
    }
    return h;
}

/* Since when place and velocity are the same, which a tracker that has lost the robot repeats: other values go on changing. */
static void follow_place(safety_memory *memory, const safety_sample *s) {
    const int known = s->position && s->velocity;
    const unsigned long long digest = known ? digest_of(s->position, 3) * 31 + digest_of(s->velocity, 3) : 0;
    if (!known || !memory->begun || digest != memory->place) memory->placed = s->received;
    memory->place = digest;
}

static int frozen(const safety_limits *limits, const safety_memory *memory, const safety_sample *s) {
    const double place = limits->frozen_s > PLACE_S ? limits->frozen_s : PLACE_S;
    if (!(limits->frozen_s > 0.0)) return 0;
    if (!(s->received - memory->changed <= limits->frozen_s)) return 1;
    return s->policy >= 0.0 && !(s->received - memory->placed <= place);
}

/* Follow the vehicle's clock and the values; returns whether the clock is sound. */
static int follow(const safety_limits *limits, safety_memory *memory, const safety_sample *s) {
    const unsigned long long digest = digest_of(s->values, s->count);
    follow_place(memory, s);
    if (!memory->begun) {
        memory->begun = 1;
        memory->offset = s->received - s->measured;
        memory->measured = s->measured;
        memory->changed = s->received;
        memory->digest = digest;
        return 1;
    }
    const int sound = s->measured >= memory->measured &&
                      !(limits->clock_s > 0.0 && fabs(s->received - s->measured - memory->offset) > limits->clock_s);
    if (digest != memory->digest) memory->changed = s->received;
    memory->digest = digest;
    memory->measured = s->measured;
    return sound;
}

/* Between body z and world z; of what is no rotation, farther than any: zeros would look upright. */
static double lean(const float *q) {
    const double length = sqrt((double)q[0] * q[0] + (double)q[1] * q[1] + (double)q[2] * q[2] + (double)q[3] * q[3]);
    double c = 1.0 - 2.0 * ((double)q[1] * q[1] + (double)q[2] * q[2]);
    if (!(fabs(length - 1.0) <= 0.1)) return HUGE_VAL;
    return acos(c > 1.0 ? 1.0 : c < -1.0 ? -1.0 : c);
}

static double size3(const float *v, const float *from) {
    double sum = 0.0;
    for (int i = 0; i < 3; i++) {
        const double d = (double)v[i] - (from ? from[i] : 0.0);
        sum += d * d;
    }
    return sqrt(sum);
}

/* From where the mean velocity leads, m. */
static double moved(const safety_memory *memory, const safety_sample *s, double dt) {
    double sum = 0.0;
    for (int i = 0; i < 3; i++) {
        const double step = 0.5 * dt * ((double)memory->velocity[i] + s->velocity[i]);
        const double d = (double)s->position[i] - memory->position[i] - step;
        sum += d * d;
    }
    return sqrt(sum);
}

/* From where the mean angular velocity leads, rad: between q and p * step. */
static double turned(const safety_memory *memory, const safety_sample *s, double dt) {
    const float *p = memory->rotation, *q = s->rotation;
    double half[3], size = 0.0;
    for (int i = 0; i < 3; i++) {
        half[i] = 0.25 * dt * ((double)memory->angular_velocity[i] + s->angular_velocity[i]);
        size += half[i] * half[i];
    }
    size = sqrt(size);
    const double a = cos(size), share = size > 1e-9 ? sin(size) / size : 1.0;
    const double x = share * half[0], y = share * half[1], z = share * half[2];
    const double w0 = p[0] * a - p[1] * x - p[2] * y - p[3] * z, x0 = p[0] * x + p[1] * a + p[2] * z - p[3] * y;
    const double y0 = p[0] * y - p[1] * z + p[2] * a + p[3] * x, z0 = p[0] * z + p[1] * y - p[2] * x + p[3] * a;
    const double c = w0 * q[0] + x0 * q[1] + y0 * q[2] + z0 * q[3];
    const double i = w0 * q[1] - x0 * q[0] - y0 * q[3] + z0 * q[2], j = w0 * q[2] + x0 * q[3] - y0 * q[0] - z0 * q[1];
    const double k = w0 * q[3] - x0 * q[2] + y0 * q[1] - z0 * q[0];
    return 2.0 * atan2(sqrt(i * i + j * j + k * k), fabs(c));
}

/* Compare a new measurement with the one before it, and keep it. */
static int jumped(const safety_limits *limits, safety_memory *memory, const safety_sample *s) {
    const int moves = s->position && s->velocity, turns = s->rotation && s->angular_velocity;
    const double dt = s->measured - memory->kept;
    const int near = dt > 0.0 && dt <= APART_S;
    int out = 0;
    if ((memory->moves || memory->turns) && dt == 0.0) return 0; /* the same one */
    if (near && moves && memory->moves) out = !(moved(memory, s, dt) <= limits->jump);
    if (near && turns && memory->turns) out = out || !(turned(memory, s, dt) <= limits->jump_angle);
    memory->kept = s->measured;
    memory->moves = moves;
    memory->turns = turns;
    if (moves) {
        memcpy(memory->position, s->position, sizeof memory->position);
        memcpy(memory->velocity, s->velocity, sizeof memory->velocity);
    }
    if (turns) {
        memcpy(memory->rotation, s->rotation, sizeof memory->rotation);
        memcpy(memory->angular_velocity, s->angular_velocity, sizeof memory->angular_velocity);
    }
    return out;
}

static int joint_fault(const safety_limits *limits, const safety_sample *s, int i) {
    if (s->joint_position && !(s->joint_position[i] >= limits->joint_low[i] && s->joint_position[i] <= limits->joint_high[i]))
        return SAFETY_JOINT;
    if (s->joint_torque && !(fabsf(s->joint_torque[i]) <= limits->torque[i])) return SAFETY_TORQUE;
    if (s->joint_velocity && !(fabsf(s->joint_velocity[i]) <= limits->speed[i])) return SAFETY_SPEED;
    if (s->external_torque && !(fabsf(s->external_torque[i]) <= limits->external[i])) return SAFETY_COLLISION;
    return SAFETY_OK;
}

/* The worst of all joints, and the first joint that has it. */
static int joints_fault(const safety_limits *limits, const safety_sample *s, int *where) {
    int worst = SAFETY_OK;
    for (int i = 0; i < limits->joints; i++) {
        const int fault = joint_fault(limits, s, i);
        if (fault != SAFETY_OK && (worst == SAFETY_OK || fault < worst)) {
            worst = fault;
            *where = i;
        }
    }
    return worst;
}

static int body_fault(const safety_limits *limits, const safety_sample *s) {
    if (s->rotation && !(lean(s->rotation) <= limits->tilt)) return SAFETY_TILT;
    if (s->position && s->target && !(size3(s->position, s->target) <= limits->fence)) return SAFETY_FENCE;
    if (s->position && !(s->position[2] >= limits->lowest && s->position[2] <= limits->highest)) return SAFETY_HEIGHT;
    if (s->angular_velocity && !(size3(s->angular_velocity, NULL) <= limits->spin)) return SAFETY_SPIN;
    return SAFETY_OK;
}

int safety_check(const safety_limits *limits, safety_memory *memory, const safety_sample *s, int *where) {
    int unused = 0;
    int *at = where ? where : &unused;
    *at = -1;
    if (s->operator_stop) return SAFETY_OPERATOR;
    if (!finite_all(s->values, s->count, at)) return SAFETY_NOT_FINITE;
    *at = -1;
    const int sound = follow(limits, memory, s);
    const int jump = jumped(limits, memory, s);
    if (limits->silent_s > 0.0 && !(s->now - s->heard <= limits->silent_s)) return SAFETY_SILENT;
    if (limits->stale_s > 0.0 && !(s->now - s->received <= limits->stale_s)) return SAFETY_STALE;
    if (frozen(limits, memory, s)) return SAFETY_FROZEN;
    if (!sound) return SAFETY_CLOCK;
    if (limits->ground_s > 0.0 && !(s->ground <= limits->ground_s)) return SAFETY_GROUND;
    if (limits->policy_s > 0.0 && s->policy >= 0.0 && !(s->now - s->policy <= limits->policy_s)) return SAFETY_HUNG;
    int fault = body_fault(limits, s);
    if (fault == SAFETY_OK && jump) fault = SAFETY_JUMP;
    if (fault == SAFETY_OK) fault = joints_fault(limits, s, at);
    if (fault != SAFETY_OK) return fault;
    if (s->disarmed) return SAFETY_DISARMED;
    if (limits->misses > 0 && s->misses >= limits->misses) return SAFETY_DEADLINE;
    if (s->battery >= 0.0 && !(s->battery >= limits->battery)) return SAFETY_BATTERY;
    return SAFETY_OK;
}

int safety_command(const safety_limits *limits, safety_memory *memory, float *command) {
    for (int i = 0; i < limits->commands; i++)
        if (!isfinite(command[i])) return SAFETY_COMMAND;
    for (int i = 0; i < limits->commands; i++) {
        float c = command[i];
        if (memory->commanded) {
            const float step = limits->command_step[i];
            if (c > memory->last[i] + step) c = memory->last[i] + step;
            if (c < memory->last[i] - step) c = memory->last[i] - step;
        }
        if (c < limits->command_low[i]) c = limits->command_low[i];
        if (c > limits->command_high[i]) c = limits->command_high[i];
        command[i] = memory->last[i] = c;
    }
    memory->commanded = 1;
    return SAFETY_OK;
}

int safety_hold(float *asked, const float *low, const float *high, const float *about, int count) {
    int changed = 0;
    for (int i = 0; i < count; i++) {
        const float origin = about == NULL ? 0.0f : about[i];
        if (asked[i] < origin + low[i]) {
            asked[i] = origin + low[i];
            changed++;
        } else if (asked[i] > origin + high[i]) {
            asked[i] = origin + high[i];
            changed++;
        }
    }
    return changed;
}
