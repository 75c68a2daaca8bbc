"""What a RedisStore has its server do in one step, in Lua. Every script takes the prefix of the store as its key.

`values`, `meta`, `words` and `keys` hold what was added by key, `due` until when, `length` how many words there are in
all, and `t:<term>` which keys have a term, each with how often, among how many words. What has an end of its own is
left out from that moment on, and taken away by whoever comes next; all of it expires by itself when nobody comes.
"""

_SHARED = """
local base = KEYS[1]
local function at(part) return base .. ':' .. part end
local function moment()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = moment()
local function text(number) return string.format('%.0f', number) end
local function is_over(key)
  local due = redis.call('ZSCORE', at('due'), key)
  return due and tonumber(due) <= now
end
local function drop(key)
  local packed = redis.call('HGET', at('words'), key)
  if packed then
    local length = nil
    for word in string.gmatch(packed, '%S+') do
      if length then redis.call('HDEL', at('t:' .. word), key) else length = tonumber(word) end
    end
    redis.call('DECRBY', at('length'), length)
  end
  for _, part in ipairs({'values', 'meta', 'words'}) do redis.call('HDEL', at(part), key) end
  redis.call('ZREM', at('due'), key)
  if redis.call('EXISTS', at('values')) == 0 then redis.call('DEL', at('length')) end
  return redis.call('ZREM', at('keys'), key)
end
local function purge(most)
  local over = redis.call('ZRANGEBYSCORE', at('due'), '-inf', text(now), 'LIMIT', 0, most)
  for _, key in ipairs(over) do drop(key) end
  return #over
end
local grace = 60000
local function extend(name, size, ttl)
  if ttl == 0 then redis.call('PERSIST', name) return end
  local left = redis.call('PTTL', name)
  if (left == -1 and size <= 1) or (left >= 0 and left < ttl + grace) then
    redis.call('PEXPIRE', name, text(ttl + grace))
  end
end
local function keep(key, ttl)
  if ttl > 0 then redis.call('ZADD', at('due'), text(now + ttl), key) end
  local size = redis.call('HLEN', at('values'))
  for _, part in ipairs({'values', 'meta', 'words', 'keys', 'due', 'length'}) do extend(at(part), size, ttl) end
  local length = nil
  for word in string.gmatch(redis.call('HGET', at('words'), key) or '', '%S+') do
    if length then extend(at('t:' .. word), redis.call('HLEN', at('t:' .. word)), ttl) else length = word end
  end
end
"""
ADD = (
    _SHARED
    + """
local key, value, meta, length, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local is_revision = tonumber(ARGV[6])  -- 1 or 0: whether the value that must be there follows
if is_revision == 1 and (is_over(key) or redis.call('HGET', at('values'), key) ~= ARGV[7]) then return 0 end
local room = redis.pcall('INCRBY', at('length'), 0)  -- a full server refuses the first write only: before the drop
if type(room) == 'table' and room.err then
  purge(1000)
  return room
end
purge(10)
drop(key)
redis.call('HSET', at('values'), key, value)
redis.call('HSET', at('meta'), key, meta)
redis.call('ZADD', at('keys'), 0, key)
redis.call('INCRBY', at('length'), length)
local words = {length}
for index = 7 + is_revision, #ARGV, 2 do
  redis.call('HSET', at('t:' .. ARGV[index]), key, ARGV[index + 1] .. ' ' .. length)
  words[#words + 1] = ARGV[index]
end
redis.call('HSET', at('words'), key, table.concat(words, ' '))
keep(key, ttl)
return 1
"""
)
READ = (  # a part of some keys, nothing for those that are not there; with a ttl their end is put off
    _SHARED
    + """
local found = {}
for index = 3, #ARGV do
  local key = ARGV[index]
  local value = not is_over(key) and redis.call('HGET', at(ARGV[1]), key)
  found[#found + 1] = value or false
  if value and tonumber(ARGV[2]) > 0 and redis.call('ZSCORE', at('due'), key) then keep(key, tonumber(ARGV[2])) end
end
return found
"""
)
FORGET = (
    _SHARED
    + """
local was_over = is_over(ARGV[1])
local dropped = drop(ARGV[1])
return (dropped == 1 and not was_over) and 1 or 0
"""
)
ASK = (  # what some commands answer at one moment, each led by how many words it has; unlike MULTI, also when full
    _SHARED
    + """
local found, index = {}, 1
while index <= #ARGV do
  local size, command = tonumber(ARGV[index]), {}
  for place = 1, size do command[place] = ARGV[index + place] end
  command[2] = at(command[2])
  found[#found + 1] = redis.call(unpack(command))
  index = index + size + 1
end
return found
"""
)
PURGE = _SHARED + "return purge(tonumber(ARGV[1]))"
