"""The Lua scripts of a RedisStore, which the server runs atomically. Their one key is the prefix of the store.

`values`, `meta`, `words` and `keys` hold the entries by key, `due` the expiry time of each key, `length` the number of
words of all texts, and `t:<term>` the keys that have a term, each with the term's count and the text's length.
An expired entry is invisible at once, and is deleted by the next call of any client. All keys also have a Redis expiry,
so that they disappear if no client calls again.
"""

_SHARED = """
local base = KEYS[1]
local function at(part) return base .. ':' .. part end
local function current_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = current_ms()
local function text(number) return string.format('%.0f', number) end
local function is_expired(key)
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
local function purge(limit)
  local expired = redis.call('ZRANGEBYSCORE', at('due'), '-inf', text(now), 'LIMIT', 0, limit)
  for _, key in ipairs(expired) do drop(key) end
  return #expired
end
local grace = 60000
local function extend(name, size, ttl)
  if ttl == 0 then redis.call('PERSIST', name) return end
  local left = redis.call('PTTL', name)
  if (left == -1 and size <= 1) or (left >= 0 and left < ttl + grace) then
    redis.call('PEXPIRE', name, text(ttl + grace))
  end
end
local function set_expiry(key, ttl)
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
local is_revision = tonumber(ARGV[6])  -- 1 or 0: whether the expected value follows
if is_revision == 1 and (is_expired(key) or redis.call('HGET', at('values'), key) ~= ARGV[7]) then return 0 end
local probe = redis.pcall('INCRBY', at('length'), 0)  -- a full server refuses only the first write
if type(probe) == 'table' and probe.err then
  purge(1000)
  return probe
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
set_expiry(key, ttl)
return 1
"""
)
READ = (  # read one hash for some keys, false for missing ones; with a ttl, extend their expiry
    _SHARED
    + """
local found = {}
for index = 3, #ARGV do
  local key = ARGV[index]
  local value = not is_expired(key) and redis.call('HGET', at(ARGV[1]), key)
  found[#found + 1] = value or false
  local ttl = tonumber(ARGV[2])
  if value and ttl > 0 and redis.call('ZSCORE', at('due'), key) then set_expiry(key, ttl) end
end
return found
"""
)
FORGET = (
    _SHARED
    + """
local was_expired = is_expired(ARGV[1])
local dropped = drop(ARGV[1])
return (dropped == 1 and not was_expired) and 1 or 0
"""
)
RUN = (  # run several commands atomically, each preceded by its word count; unlike MULTI it works on a full server
    _SHARED
    + """
local found, index = {}, 1
while index <= #ARGV do
  local size, command = tonumber(ARGV[index]), {}
  for word = 1, size do command[word] = ARGV[index + word] end
  command[2] = at(command[2])
  found[#found + 1] = redis.call(unpack(command))
  index = index + size + 1
end
return found
"""
)
PURGE = _SHARED + "return purge(tonumber(ARGV[1]))"
