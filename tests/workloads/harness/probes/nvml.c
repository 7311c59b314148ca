/* A driver's library that answers for two cards, of which the second has no index, hangs, or kills the process
   that asks, as NVML_FAKE says: "init" or "power", a colon, and "hang", "segv" or "abort"; power is told twice before that. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_FOUND = 6 };
static const char UUID[] = "GPU-4f6ec1ba-0000-1111-2222-333344445555";
static const char OTHER[] = "GPU-77777777-0000-1111-2222-333344445555";
static int told;

static void fail(const char *where) {
    const char *wish = getenv("NVML_FAKE");
    size_t length = strlen(where);
    if (!wish || strncmp(wish, where, length) || wish[length] != ':') return;
    if (!strcmp(wish + length + 1, "hang")) for (;;) pause();
    if (!strcmp(wish + length + 1, "segv")) raise(SIGSEGV);
    abort();
}

int nvmlInitWithFlags(unsigned flags) { fail("init"); return SUCCESS; }
int nvmlInit_v2(void) { fail("init"); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_FOUND ? "Not Found" : "an error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) {
    *card = (void *)UUID;
    return index ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **card) {
    *card = (void *)(strcmp(uuid, OTHER) ? UUID : OTHER);
    return strcmp(uuid, *card) ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetUUID(void *card, char *uuid, unsigned length) {
    strncpy(uuid, card, length);
    return SUCCESS;
}
int nvmlDeviceGetName(void *card, char *name, unsigned length) {
    strncpy(name, "NVIDIA H100 80GB HBM3", length);
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void *card, unsigned *milliwatts) {
    if (told++ >= 2) fail("power");
    *milliwatts = 71500;
    return SUCCESS;
}
int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *celsius) { *celsius = 55; return SUCCESS; }

/* As in nvml.h: nvmlGpuFabricInfo_v2_t and nvmlEccSramErrorStatus_v1_t. */
struct fabric {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
    unsigned health;
};
int nvmlDeviceGetGpuFabricInfoV(void *card, struct fabric *info) {
    if (info->version != (sizeof(struct fabric) | 2u << 24)) return 25; /* argument version mismatch */
    info->state = 3;
    info->status = SUCCESS;
    info->health = 2; /* bandwidth is not degraded */
    return SUCCESS;
}
struct sram {
    unsigned version;
    unsigned long long counts[11];
    unsigned exceeded;
};
int nvmlDeviceGetSramEccErrorStatus(void *card, struct sram *status) {
    if (status->version != (sizeof(struct sram) | 1u << 24)) return 25;
    status->exceeded = 1;
    return SUCCESS;
}
