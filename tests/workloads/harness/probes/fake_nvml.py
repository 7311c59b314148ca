"""An NVML whose answers are attributes."""

import os
from ctypes import c_uint
from types import SimpleNamespace

from pynvml import c_nvmlEccSramErrorStatus_v1_t, c_nvmlGpuFabricInfoV_t

UUID = "GPU-4f6ec1ba-0000-1111-2222-333344445555"


class NotSupported(Exception):
    def __str__(self):
        return "Not Supported"


class FakeNvml:
    """A card whose answers are attributes; a name in `silent` raises Not Supported."""

    nvmlMemory_v2 = 0x02000028
    c_nvmlEccSramErrorStatus_v1_t = c_nvmlEccSramErrorStatus_v1_t
    c_nvmlGpuFabricInfoV_t = c_nvmlGpuFabricInfoV_t

    def __init__(self, *silent):
        self.silent = set(silent)
        self.violation_ns = {0: 10**9, 1: 0}
        self.energy_mj = 1_000_000
        self.reasons = 0x4
        self.utilisation = 50
        self.pids = [os.getpid()]
        self.own_bytes = 10**9
        self.used_bytes = 100
        self.handles = {UUID: "handle"}
        self.inits = 0
        self.uuids = [UUID]
        self.nvlinks = [1, 1, 0]
        self.levels = {}  # of another card's UUID
        self.ecc = {0: 0, 1: 2}
        self.rows = (0, 1, 0, 0)
        self.sram_exceeded = 0
        self.slices = []  # of the card: each slices of its GPU instance and its own, multiprocessors, MiB
        self.fabric = (3, 0, 0b10)  # completed, success, bandwidth not degraded

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in object.__getattribute__(self, "silent"):
            if name == "nvmlMemory_v2":
                raise AttributeError(name)
            return self._refuse
        return object.__getattribute__(self, name)

    def _refuse(self, *_, **__):
        raise NotSupported

    def nvmlInit(self):
        self.inits += 1

    def nvmlShutdown(self):
        self.inits -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.handles:
            raise NotSupported
        return self.handles[uuid]

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.uuids[index]

    def nvmlDeviceGetUUID(self, handle):
        return next((uuid for uuid, found in self.handles.items() if found == handle), handle)

    def nvmlDeviceGetPciInfo(self, _):
        return SimpleNamespace(busId="00000000:3B:00.0")

    def nvmlDeviceGetUtilizationRates(self, _):
        return SimpleNamespace(gpu=self.utilisation, memory=3)

    def nvmlDeviceGetMemoryInfo(self, _, version=None):
        return SimpleNamespace(used=self.used_bytes if version else 700, total=24 * 2**30, version=version)

    def nvmlDeviceGetPowerUsage(self, _):
        return 71_500

    def nvmlDeviceGetClockInfo(self, _, kind):
        return {1: 1410}[kind]

    def nvmlDeviceGetMaxClockInfo(self, _, kind):
        return {1: 1710}[kind]

    def nvmlDeviceGetTemperature(self, _, sensor):
        return {0: 55}[sensor]

    def nvmlDeviceGetCurrentClocksEventReasons(self, _):
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _):
        return self.reasons

    def nvmlDeviceGetViolationStatus(self, _, policy):
        return SimpleNamespace(referenceTime=1, violationTime=self.violation_ns[policy])

    def nvmlDeviceGetTotalEnergyConsumption(self, _):
        return self.energy_mj

    def nvmlDeviceGetComputeRunningProcesses(self, _):
        return [SimpleNamespace(pid=pid, usedGpuMemory=self.own_bytes) for pid in self.pids]

    def nvmlDeviceGetName(self, _):
        return "NVIDIA L4"

    def nvmlSystemGetDriverVersion(self):
        return "580.65.06"

    def nvmlDeviceGetVbiosVersion(self, _):
        return "95.04"

    def nvmlDeviceGetEnforcedPowerLimit(self, _):
        return 72_000

    def nvmlDeviceGetCurrPcieLinkGeneration(self, _):
        return 1

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _):
        return 4

    def nvmlDeviceGetCurrPcieLinkWidth(self, _):
        return 16

    def nvmlDeviceGetMaxPcieLinkWidth(self, _):
        return 16

    def nvmlDeviceGetTotalEccErrors(self, _, kind, counter):
        assert kind == 1
        return self.ecc[counter]

    def nvmlDeviceGetRemappedRows(self, _):
        return self.rows

    def nvmlDeviceGetSramEccErrorStatus(self, _, status):
        status._obj.bThresholdExceeded = self.sram_exceeded

    def nvmlDeviceGetGpuFabricInfoV(self, _, info):
        info._obj.state, info._obj.status, info._obj.healthMask = self.fabric

    def nvmlDeviceGetRetiredPagesPendingStatus(self, _):
        raise NotSupported

    def nvmlDeviceGetPowerManagementDefaultLimit(self, _):
        return 96_000

    def nvmlDeviceGetPersistenceMode(self, _):
        return 1

    def nvmlDeviceGetEccMode(self, _):
        return [1, 1]

    def nvmlDeviceGetMigMode(self, handle):
        if handle in self.slices:
            raise NotSupported
        return [int(bool(self.slices))] * 2

    def nvmlDeviceIsMigDeviceHandle(self, handle):
        return c_uint(handle in self.slices)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        return self.handles[UUID]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _, index):
        if index >= len(self.slices):
            raise NotSupported
        return self.slices[index]

    def nvmlDeviceGetMaxMigDeviceCount(self, _):
        return 7

    def nvmlDeviceGetAttributes(self, handle):
        instance, compute, sms, mib = handle
        return SimpleNamespace(
            gpuInstanceSliceCount=instance,
            computeInstanceSliceCount=compute,
            multiprocessorCount=sms,
            memorySizeMB=mib,
        )

    def nvmlDeviceGetComputeMode(self, _):
        return 0

    def nvmlDeviceGetNvLinkState(self, _, link):
        if link >= len(self.nvlinks):
            raise NotSupported
        return self.nvlinks[link]

    def nvmlDeviceGetCount(self):
        return len(self.uuids)

    def nvmlDeviceGetTopologyCommonAncestor(self, _, other):
        return self.levels[other]
