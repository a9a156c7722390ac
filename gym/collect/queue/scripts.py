"""What Redis does in one step, in its own language. Each looks first whether the queue is whole.

Keys: what the queue is, its stream, one bit for each task that has ended, the failed tasks to retry.
A bit behind the last task and a field "" of the failed ones are there as long as Redis has lost nothing.
"""

from __future__ import annotations

LOST = "GYMLOST"
TAKEN = "GYMTAKEN"
BUSY = "GYMBUSY"

_WHOLE = """
local meta, stream, ended, failed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local function is_whole()
  local total = redis.call('HGET', meta, 'total')
  return total and redis.call('EXISTS', stream) == 1 and redis.call('GETBIT', ended, total) == 1
    and redis.call('HEXISTS', failed, '') == 1
end
local function view()
  return {tonumber(redis.call('HGET', meta, 'total')), tonumber(redis.call('HGET', meta, 'done')),
    tonumber(redis.call('HGET', meta, 'bad')) + redis.call('HLEN', failed) - 1,
    redis.call('XLEN', stream) + redis.call('HGET', meta, 'total') - redis.call('HGET', meta, 'filled')}
end
local function let_go(id)
  redis.call('XACK', stream, 'collectors', id)
  redis.call('XDEL', stream, id)
end
local function still_open(entries, found)
  for _, entry in ipairs(entries) do
    local number = entry and entry[2] and entry[2][2]
    if number and redis.call('GETBIT', ended, number) == 1 then let_go(entry[1])
    elseif number then table.insert(found, {entry[1], number}) end
  end
end
"""

_SAME = (
    _WHOLE
    + """
if redis.call('HGET', meta, 'token') ~= ARGV[1] or not is_whole() then return redis.error_reply('GYMLOST') end
"""
)

# token, identity, total, collector, lease in ms, whether to restart -> token, identity, total, whether it was made
JOIN = (
    _WHOLE
    + """
local there = is_whole()
if ARGV[6] == '1' and there then
  for _, one in ipairs(redis.call('XINFO', 'CONSUMERS', stream, 'collectors')) do
    local facts = {}
    for i = 1, #one, 2 do facts[one[i]] = one[i + 1] end
    if facts['name'] ~= ARGV[4] and facts['pending'] > 0 and facts['idle'] < tonumber(ARGV[5]) then
      return redis.error_reply('GYMBUSY')
    end
  end
  there = false
end
if not there then
  redis.call('DEL', meta, stream, ended, failed)
  redis.call('HSET', meta, 'token', ARGV[1], 'identity', ARGV[2], 'total', ARGV[3], 'filled', 0, 'done', 0, 'bad', 0)
  redis.call('XGROUP', 'CREATE', stream, 'collectors', '0', 'MKSTREAM')
  redis.call('SETBIT', ended, ARGV[3], 1)
  redis.call('HSET', failed, '', 1)
end
local held = redis.call('HMGET', meta, 'token', 'identity', 'total')
if held[2] == ARGV[2] and held[3] == ARGV[3] then
  for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
end
return {held[1], held[2], held[3], there and 0 or 1}
"""
)

# token, how many at most -> how many are in the stream
FILL = (
    _SAME
    + """
local from = tonumber(redis.call('HGET', meta, 'filled'))
local upto = math.min(from + tonumber(ARGV[2]), tonumber(redis.call('HGET', meta, 'total')))
for number = from, upto - 1 do redis.call('XADD', stream, '*', 'n', number) end
redis.call('HSET', meta, 'filled', upto)
return upto
"""
)

# token, collector, process -> the view; the failed tasks are in the stream again
ENTER = (
    _SAME
    + """
redis.call('HSET', meta, 'process:' .. ARGV[2], ARGV[3])
for _, number in ipairs(redis.call('HKEYS', failed)) do
  if number ~= '' then
    redis.call('XADD', stream, '*', 'n', number)
    redis.call('HDEL', failed, number)
  end
end
return view()
"""
)

# token, collector, process, how many, lease in ms (0: take none over) -> the view, [id, number]...
CLAIM = (
    _SAME
    + """
if redis.call('HGET', meta, 'process:' .. ARGV[2]) ~= ARGV[3] then return redis.error_reply('GYMTAKEN') end
local found = {}
local reply = redis.call('XREADGROUP', 'GROUP', 'collectors', ARGV[2], 'COUNT', ARGV[4], 'STREAMS', stream, '>')
if reply then still_open(reply[1][2], found) end
local fresh = reply and #reply[1][2] or 0
local cursor, rounds = '0-0', 0
while fresh == 0 and ARGV[5] ~= '0' and #found == 0 and rounds < 100 do
  local taken = redis.call('XAUTOCLAIM', stream, 'collectors', ARGV[2], ARGV[5], cursor, 'COUNT', ARGV[4])
  still_open(taken[2], found)
  cursor, rounds = taken[1], rounds + 1
  if cursor == '0-0' then break end
end
local now = view()
if now[4] == 0 then for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, 2592000) end end
return {now, found}
"""
)

# token, collector, process, for each: id, number, how it ended (done, bad, again) -> the view
SETTLE = (
    _SAME
    + """
for i = 4, #ARGV, 3 do
  local id, number, how = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if id ~= '' then let_go(id) end
  if redis.call('GETBIT', ended, number) == 0 then
    if how == 'again' then redis.call('HSET', failed, number, 1)
    else
      redis.call('SETBIT', ended, number, 1)
      redis.call('HDEL', failed, number)
      redis.call('HINCRBY', meta, how, 1)
    end
  end
end
return view()
"""
)

# token, collector, process -> the view, [id, number]... that are this collector's; their leases begin again
BEAT = (
    _SAME
    + """
if redis.call('HGET', meta, 'process:' .. ARGV[2]) ~= ARGV[3] then return redis.error_reply('GYMTAKEN') end
local found, from = {}, '-'
while true do
  local ids = {}
  for _, one in ipairs(redis.call('XPENDING', stream, 'collectors', from, '+', 500, ARGV[2])) do
    table.insert(ids, one[1])
  end
  if #ids == 0 then break end
  still_open(redis.call('XCLAIM', stream, 'collectors', ARGV[2], 0, unpack(ids)), found)
  from = '(' .. ids[#ids]
end
return {view(), found}
"""
)

# token, collector, process, ids -> how many: at once anyone's who asks
RELEASE = (
    _SAME
    + """
local count = 0
for i = 4, #ARGV do
  local held = redis.call('XPENDING', stream, 'collectors', ARGV[i], ARGV[i], 1, ARGV[2])
  if #held == 1 then
    redis.call('XCLAIM', stream, 'collectors', ARGV[2], 0, ARGV[i], 'IDLE', 31536000000, 'JUSTID')
    count = count + 1
  end
end
return count
"""
)
