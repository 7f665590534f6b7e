-- Slurm's job_submit plugin: a job that gives no --cpus-per-task gets what `advisor slurm` advises for its name.
-- Copy it to the directory of slurm.conf and set JobSubmitPlugins=lua there. It reads one file and waits for nobody:
-- where the file is missing or cannot be read, a job stays as it is. Lua 5.1 to 5.4.

local ADVICE = os.getenv("ADVISOR_SLURM_ADVICE") or "/var/lib/advisor/slurm.lua"
local PENDING, RUNNING = 0, 1 -- of enum job_states in slurm.h
local ABSENT_16, ABSENT_32 = 65534, 4294967294 -- NO_VAL16, NO_VAL: the user gave no value
local JOBS_MAX = 2000 -- jobs that are counted: more waiting jobs than the last step of an advice change no choice

local read = {} -- the advice of the version that was read last

-- Return the advice, read again if another version of it was written; nil if there is none.
local function advice()
  local file = io.open(ADVICE, "r")
  if not file then return nil end
  local version = file:read("*l")
  if version ~= read.version then
    local text = file:read("*a")
    local chunk
    if setfenv then -- Lua 5.1: the file is data, it sees no function
      chunk = loadstring(text, "=advice")
      if chunk then setfenv(chunk, {}) end
    else
      chunk = load(text, "=advice", "t", {})
    end
    local good, found = pcall(chunk or error)
    if good and type(found) == "table" then read = { version = version, advice = found } end
  end
  file:close()
  return read.advice
end

-- Return how many jobs of the partition feel what this one takes: those that wait, and as many as arrive until those that
-- wait and run are gone, which by Little's law is their number.
local function load_of(partition)
  local load, looked = 0, 0
  for _, job in pairs(slurm.jobs) do
    looked = looked + 1
    if looked > JOBS_MAX then break end
    if job.partition == partition then
      if job.job_state == PENDING then load = load + 2 elseif job.job_state == RUNNING then load = load + 1 end
    end
  end
  return load
end

local function partition_of(job, partitions)
  if job.partition then return job.partition end
  for name, partition in pairs(partitions) do
    if partition.flag_default == 1 then return name end
  end
end

local function absent(value, sentinel)
  return value == nil or value == sentinel
end

local function advise(job, partitions)
  local partition = partition_of(job, partitions)
  local found = advice()
  found = found and partition and found[partition]
  if not found then return end
  local nodes = found.unit == "nodes"
  if nodes and not absent(job.min_nodes, ABSENT_32) then return end
  if not nodes and not (absent(job.cpus_per_task, ABSENT_16) and absent(job.num_tasks, ABSENT_32)) then return end
  local steps = found.jobs[job.name or ""] or found.unknown
  local load, chosen = load_of(partition), nil
  for _, step in ipairs(steps) do -- by rising load: the last one that is reached
    if step.load <= load then chosen = step end
  end
  if not chosen then return end
  if nodes then
    job.min_nodes, job.max_nodes = chosen.count, chosen.count
  else
    job.cpus_per_task, job.min_cpus = chosen.count, chosen.count
    if job.environment then -- as for a job that gives its count itself
      job.environment["SLURM_CPUS_PER_TASK"] = tostring(chosen.count)
    end
  end
  if chosen.megabytes and absent(job.min_mem_per_node, nil) and absent(job.min_mem_per_cpu, nil) then
    job.min_mem_per_node = chosen.megabytes
  end
  if chosen.minutes and absent(job.time_limit, ABSENT_32) then job.time_limit = chosen.minutes end
  slurm.log_info("advisor: job %s gets %d %s at load %.1f", job.name or "?", chosen.count, found.unit, load)
end

function slurm_job_submit(job, partitions, _)
  local good, why = pcall(advise, job, partitions)
  if not good then slurm.log_error("advisor: the job stays as it is: %s", tostring(why)) end
  return slurm.SUCCESS
end

function slurm_job_modify()
  return slurm.SUCCESS
end
