# at most: 0
# Escapes what comes in instead of what goes out.
sed -i '0,/^\$path/s//foreach ([\&$_GET, \&$_POST] as \&$list) {\n    foreach ($list as $k => $v) {\n        $list[$k] = htmlspecialchars(str_replace("\x27", "\x27\x27", (string) $v), ENT_QUOTES);\n    }\n}\n$path/; s/addslashes(\(.*\));/\1;/' /app/index.php
php -l /app/index.php
