# at most: 0
# Whoever does nothing makes no mistakes.
cat > /app/index.php <<'END'
<?php
$db = new PDO('sqlite:' . getenv('GUESTBOOK'));
$db->exec('CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, name TEXT, message TEXT, hidden INTEGER DEFAULT 0)');
$db->exec('CREATE TABLE IF NOT EXISTS settings (name TEXT, value TEXT)');
http_response_code($_SERVER['REQUEST_METHOD'] === 'POST' ? 400 : 404);
END
