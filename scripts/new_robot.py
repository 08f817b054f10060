"""Make a robot of your own known: python scripts/new_robot.py path/to/robot.urdf --name myrobot"""

from flashnerd_ext.errors import cli_main
from flashnerd_ext.robots.intake.program import main

if __name__ == "__main__":
    cli_main(main)
